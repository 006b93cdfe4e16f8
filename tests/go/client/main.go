// SPDX-License-Identifier: Apache-2.0

// A gNMI client on gnmic's own library, for the tests of the switch agent. The first argument is what to call:
// capabilities, get, set or subscribe. Says each response as a line of JSON (protobuf's mapping), and in the end
// {"status": CODE, "message": TEXT}; a subscription that was read until --for has the status OK.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"time"

	"github.com/openconfig/gnmi/proto/gnmi"
	"github.com/openconfig/gnmic/pkg/api"
	"github.com/openconfig/gnmic/pkg/api/target"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

type list []string

func (l *list) String() string         { return strings.Join(*l, " ") }
func (l *list) Set(value string) error { *l = append(*l, value); return nil }

var (
	paths     list
	models    list
	address   = flag.String("address", "127.0.0.1:9339", "where the target is")
	ca        = flag.String("ca", "", "CA of the target's certificate; without one there is no TLS")
	cert      = flag.String("cert", "", "certificate to show")
	key       = flag.String("key", "", "its key")
	username  = flag.String("username", "", "who calls")
	password  = flag.String("password", "", "and the password")
	encoding  = flag.String("encoding", "json", "as gNMI calls it, in small letters")
	name      = flag.String("target", "", "target of the prefix")
	prefix    = flag.String("prefix", "", "path of the prefix")
	kind      = flag.String("type", "all", "of data, for get")
	mode      = flag.String("mode", "stream", "of the list")
	sub       = flag.String("stream-mode", "sample", "of each path")
	interval  = flag.Duration("interval", time.Second, "between samples")
	heartbeat = flag.Duration("heartbeat", 0, "between heartbeats")
	suppress  = flag.Bool("suppress", false, "suppress what does not change")
	updates   = flag.Bool("updates-only", false, "do not send what is there in the beginning")
	polls     = flag.Int("polls", 0, "how often to poll")
	length    = flag.Duration("for", 5*time.Second, "how long to read a stream")
)

func say(message proto.Message) {
	text, err := protojson.Marshal(message)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(text))
}

func end(err error) {
	code := status.Code(err).String()
	text, _ := json.Marshal(map[string]string{"status": code, "message": status.Convert(err).Message()})
	fmt.Println(string(text))
}

func must[T any](made T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return made
}

func common() []api.GNMIOption {
	given := []api.GNMIOption{api.Encoding(*encoding)}
	if *prefix != "" {
		given = append(given, api.Prefix(*prefix))
	}
	if *name != "" {
		given = append(given, api.Target(*name))
	}
	for _, model := range models {
		given = append(given, api.UseModel(model, "", ""))
	}
	return given
}

func subscription() *gnmi.SubscribeRequest {
	given := append(common(), api.SubscriptionListMode(*mode), api.UpdatesOnly(*updates))
	for _, path := range paths {
		part := []api.GNMIOption{api.Path(path)}
		if *mode == "stream" {
			part = append(part, api.SubscriptionMode(*sub), api.SuppressRedundant(*suppress))
			if *sub == "sample" {
				part = append(part, api.SampleInterval(*interval))
			}
			if *heartbeat > 0 {
				part = append(part, api.HeartbeatInterval(*heartbeat))
			}
		}
		given = append(given, api.Subscription(part...))
	}
	return must(api.NewSubscribeRequest(given...))
}

func subscribe(ctx context.Context, to *target.Target) error {
	ctx, cancel := context.WithTimeout(ctx, *length)
	defer cancel()
	if *username != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "username", *username, "password", *password)
	}
	stream, err := to.Client.Subscribe(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(subscription()); err != nil {
		return err
	}
	for i := 0; i < *polls; i++ {
		if err := stream.Send(must(api.NewSubscribePollRequest())); err != nil {
			return err
		}
	}
	if *mode != "stream" {
		stream.CloseSend()
	}
	for {
		response, err := stream.Recv()
		// The target knows the deadline too, and may end the stream a moment before it passes here.
		if err == io.EOF || (err != nil && ctx.Err() != nil) || status.Code(err) == codes.DeadlineExceeded {
			return nil
		}
		if err != nil {
			return err
		}
		say(response)
	}
}

func call(ctx context.Context, to *target.Target, what string) error {
	ctx, cancel := context.WithTimeout(ctx, *length)
	defer cancel()
	switch what {
	case "capabilities":
		answer, err := to.Capabilities(ctx)
		if err == nil {
			say(answer)
		}
		return err
	case "get":
		given := append(common(), api.DataType(*kind))
		for _, path := range paths {
			given = append(given, api.Path(path))
		}
		answer, err := to.Get(ctx, must(api.NewGetRequest(given...)))
		if err == nil {
			say(answer)
		}
		return err
	default:
		_, err := to.Set(ctx, must(api.NewSetRequest(api.Update(api.Path(paths[0]), api.Value("x", "json")))))
		return err
	}
}

func main() {
	what := os.Args[1]
	flag.Var(&paths, "path", "path, which may be given again")
	flag.Var(&models, "model", "model to use, which may be given again")
	flag.CommandLine.Parse(os.Args[2:])
	ctx := context.Background()
	to := must(api.NewTarget(api.Name("agent"), api.Address(*address), api.Username(*username), api.Password(*password),
		api.Insecure(*ca == ""), api.TLSCA(*ca), api.TLSCert(*cert), api.TLSKey(*key), api.Timeout(5*time.Second)))
	if err := to.CreateGNMIClient(ctx); err != nil {
		end(err)
		return
	}
	defer to.Close()
	if what == "subscribe" {
		end(subscribe(ctx, to))
	} else {
		end(call(ctx, to, what))
	}
}
