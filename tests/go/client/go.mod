module mburst.test/client

go 1.22.0

require (
	github.com/openconfig/gnmi v0.11.0
	github.com/openconfig/gnmic/pkg/api v0.1.9
	google.golang.org/grpc v1.63.2
	google.golang.org/protobuf v1.33.1-0.20240408130810-98873a205002
)

require (
	cloud.google.com/go/compute/metadata v0.3.0 // indirect
	github.com/AlekSi/pointer v1.2.0 // indirect
	github.com/bufbuild/protocompile v0.13.0 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	github.com/jhump/protoreflect v1.16.0 // indirect
	github.com/openconfig/grpctunnel v0.1.0 // indirect
	golang.org/x/net v0.34.0 // indirect
	golang.org/x/oauth2 v0.25.0 // indirect
	golang.org/x/sys v0.29.0 // indirect
	golang.org/x/text v0.21.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20240415180920-8c6c420018be // indirect
)
