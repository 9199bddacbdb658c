//go:build conformance

package conformance_test

import (
	"context"
	"flag"
	"net"
	"os/exec"
	"testing"
	"time"

	"breakwater/gateway/config"
)

// times is how often each case of gRPC's interoperability suite is run.
var times = flag.Int("interop", 100, "runs of each gRPC interop case")

// cases that need no credentials and no protocol of a server's own.
var cases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
	"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response", "status_code_and_message",
	"special_status_message", "custom_metadata", "unimplemented_method", "unimplemented_service",
}

func TestReliability_F3(t *testing.T) {
	client := install(t, "google.golang.org/grpc/interop/client", "interop-client")
	server := install(t, "google.golang.org/grpc/interop/server", "interop-server")
	_, port := freePort(t)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, server, "-port", port)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); _ = cmd.Wait() }() // killed: its error is no news
	upstream := net.JoinHostPort("127.0.0.1", port)
	for deadline := time.Now().Add(10 * time.Second); ; {
		c, err := net.DialTimeout("tcp", upstream, time.Second)
		if err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	address := listen(t, config.Gateway{}, config.Upstream{
		Protocol: config.H2C, ConnectTimeout: time.Second, Endpoints: []config.Endpoint{{Address: upstream}},
	})
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range cases {
		t.Run(name, func(t *testing.T) {
			missed := 0
			for range *times {
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				out, err := exec.CommandContext(ctx, client, "-server_host", host, "-server_port", port, "-test_case", name).CombinedOutput()
				cancel()
				if err != nil {
					if missed++; missed == 1 {
						t.Logf("%v\n%s", err, out)
					}
				}
			}
			t.Logf("%d of %d missed", missed, *times)
			if missed > 0 {
				t.Fail()
			}
		})
	}
}

// freePort finds a port that was free a moment ago.
func freePort(t *testing.T) (host, port string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return host, port
}
