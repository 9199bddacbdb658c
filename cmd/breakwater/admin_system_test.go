package main

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"breakwater/internal/pgtest"
)

// What an admin sees of the machinery comes from a real gateway's admin port, the
// doctor's own checks, and a real database.
func TestSystemOfAdmins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gw.yaml")
	write(t, file, goodDocument)
	_, admin := served(t, file)
	address := admin.Listener.Addr().String()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	silent := dead.Addr().String()
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, pgtest.DSN(t), controlOptions{gatewayAdmins: []string{address, " " + silent, ""}})
	s := d.c.system
	stats := s.Gateways(t.Context())
	if len(stats) != 2 || stats[0].Trouble != "" || stats[0].Revision == "" || stats[0].Endpoints == 0 || stats[0].Ready != stats[0].Endpoints || stats[0].AppliedAt.IsZero() {
		t.Fatalf("%+v", stats)
	}
	if stats[1].Address != silent || !strings.Contains(stats[1].Trouble, "refused") {
		t.Errorf("nobody listens there: %+v", stats[1])
	}
	state := map[string][]string{}
	for _, f := range s.Examine(t.Context()) {
		state[f.Check] = append(state[f.Check], f.State+" "+f.Text)
	}
	if got := state["gateway"]; len(got) != 2 || !strings.HasPrefix(got[0], "ok serves revision "+stats[0].Revision) || !strings.HasPrefix(got[1], "fail nobody answers at "+silent) {
		t.Errorf("gateway: %q", got)
	}
	if got := state["endpoints"]; len(got) != 1 || !strings.HasPrefix(got[0], "ok all ") {
		t.Errorf("endpoints: %q", got)
	}
	sizes, err := s.Sizes(t.Context())
	if err != nil || sizes.Bytes == 0 || len(sizes.Tables) < 20 {
		t.Errorf("%d tables, %v", len(sizes.Tables), err)
	}
	if list, err := s.Deliveries(t.Context(), time.Now()); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	// Nobody named a port: one that does not answer is not there.
	d.c.opt.gatewayAdmins = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if stats := s.Gateways(ctx); stats != nil {
		t.Errorf("%+v", stats)
	}
}
