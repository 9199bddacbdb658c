package conformance_test

import (
	"context"
	"net"
	"testing"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/route"
)

// listen serves one catch-all route to up on a free port, until the test ends.
func listen(t *testing.T, g config.Gateway, up config.Upstream) (address string) {
	t.Helper()
	up.Name = "up"
	gw := gateway.New(gateway.Config{Name: "test", Env: "test"})
	if err := gw.Apply(config.Config{
		Gateway:   g,
		Upstreams: []config.Upstream{up},
		Routes:    []config.Route{{Name: "all", Service: "shop", Match: route.Match{Path: "/*"}, Upstream: "up", Timeout: 0}},
		Revision:  "1", Hash: "1",
	}); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- gw.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}
