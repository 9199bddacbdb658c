package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestServePassesToxiproxyOn(t *testing.T) {
	for _, toxic := range []string{"", "127.0.0.1:0"} {
		set := settings{listen: "127.0.0.1:0", admin: "127.0.0.1:0", control: "127.0.0.1:0", config: "x", env: "test",
			stateDir: t.TempDir(), db: "postgres://nobody@127.0.0.1:1/none", toxiproxy: toxic, toxicLease: time.Minute}
		h, err := openHouse(t.Context(), set, houseOptions{log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		i := slices.Index(h.gateway.args, "--toxiproxy")
		switch l := h.gateway.listeners["toxiproxy"]; {
		case toxic == "" && (i >= 0 || l != nil || strings.Contains(h.addresses(), "toxiproxy")):
			t.Errorf("nobody asked for it: %v", h.gateway.args)
		case toxic != "" && (i < 0 || l == nil || h.gateway.args[i+1] != l.Addr().String() || !slices.Contains(h.gateway.args, "1m0s")):
			t.Errorf("the gateway is not told: %v", h.gateway.args)
		case toxic != "" && !strings.Contains(h.addresses(), "toxiproxy API  http://127.0.0.1:"):
			t.Errorf("nobody is told where it is:\n%s", h.addresses())
		}
		h.Close()
	}
}
