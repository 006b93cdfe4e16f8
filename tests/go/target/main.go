// SPDX-License-Identifier: Apache-2.0

// A gNMI target on the reference cache and subscribe packages, which a test drives: every line of standard input is a
// Notification in protobuf's text format, or the word sync. Says "ready ADDRESS" when it listens.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"flag"
	"fmt"
	"log"
	"net"
	"os"

	"github.com/openconfig/gnmi/cache"
	pb "github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/gnmi/subscribe"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/prototext"
)

var (
	name     = flag.String("name", "dev", "name of the target in prefixes")
	cert     = flag.String("cert", "", "certificate; without one there is no TLS")
	key      = flag.String("key", "", "its key")
	ca       = flag.String("ca", "", "clients must show a certificate of this CA")
	username = flag.String("username", "", "and say this name")
	password = flag.String("password", "", "and this password")
)

type server struct {
	pb.UnimplementedGNMIServer
	subscriptions *subscribe.Server
}

func (s *server) Subscribe(stream pb.GNMI_SubscribeServer) error {
	if err := admit(stream.Context()); err != nil {
		return err
	}
	return s.subscriptions.Subscribe(stream)
}

func (s *server) Capabilities(ctx context.Context, _ *pb.CapabilityRequest) (*pb.CapabilityResponse, error) {
	if err := admit(ctx); err != nil {
		return nil, err
	}
	return &pb.CapabilityResponse{
		SupportedModels:    []*pb.ModelData{{Name: "openconfig-qos", Organization: "OpenConfig working group", Version: "0.11.0"}},
		SupportedEncodings: []pb.Encoding{pb.Encoding_PROTO, pb.Encoding_JSON_IETF},
		GNMIVersion:        "0.10.0",
	}, nil
}

func admit(ctx context.Context) error {
	said, _ := metadata.FromIncomingContext(ctx)
	for word, wanted := range map[string]string{"username": *username, "password": *password} {
		if got := said.Get(word); wanted != "" && (len(got) != 1 || got[0] != wanted) {
			return status.Errorf(codes.Unauthenticated, "wrong %s", word)
		}
	}
	return nil
}

func options() ([]grpc.ServerOption, error) {
	if *cert == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(*cert, *key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if *ca != "" {
		pem, err := os.ReadFile(*ca)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(pem)
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return []grpc.ServerOption{grpc.Creds(credentials.NewTLS(config))}, nil
}

func drive(target *cache.Target) {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if lines.Text() == "sync" {
			target.Sync()
			continue
		}
		notification := &pb.Notification{}
		if err := prototext.Unmarshal(lines.Bytes(), notification); err != nil {
			log.Fatalf("no Notification: %v", err)
		}
		if err := target.GnmiUpdate(notification); err != nil {
			log.Printf("refused: %v", err)
		}
	}
	os.Exit(0)
}

func main() {
	flag.Parse()
	tree := cache.New([]string{*name})
	subscriptions, err := subscribe.NewServer(tree)
	if err != nil {
		log.Fatal(err)
	}
	tree.SetClient(subscriptions.Update)
	with, err := options()
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	service := grpc.NewServer(with...)
	pb.RegisterGNMIServer(service, &server{subscriptions: subscriptions})
	go drive(tree.GetTarget(*name))
	fmt.Printf("ready %s\n", listener.Addr())
	log.Fatal(service.Serve(listener))
}
