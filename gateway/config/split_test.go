package config

import (
	"slices"
	"testing"
	"time"

	"breakwater/gateway/route"
	"breakwater/internal/conf"
)

func TestRoutingDocument(t *testing.T) {
	var log conf.Log
	c := Parse(load(t, "testdata/good/routing.yaml"), &log)
	if all := log.All(); len(all) > 0 {
		t.Fatalf("got\n%v", all)
	}
	r := c.Routes[0]
	if m := r.Match; !slices.Equal(m.Callers, []string{"web", "app"}) || len(m.Windows) != 2 || m.Windows[0].String() != "mon,tue,wed,thu,fri 22:00-06:00 Asia/Shanghai" ||
		!slices.Equal(m.Headers, []route.Header{{Name: "X-Tenant", Present: true}, {Name: "X-Canary", Value: "yes"}, {Name: "X-Debug", Value: "no"}}) {
		t.Errorf("match %+v", m)
	}
	if r.Upstream != "order" || !r.Sticky || !r.EscapeSplit || r.MaxBody != 1<<20 {
		t.Errorf("route %+v", r)
	}
	if *r.Mirror != (Mirror{Upstream: "shadow", PPM: 125_000, MaxBody: 256 << 10, Timeout: 2 * time.Second}) {
		t.Errorf("mirror %+v", *r.Mirror)
	}
	ups, w, err := c.Branches(r)
	if err != nil || w.Share(0) != 900_000 || w.Share(1) != 50_000 || w.Share(2) != 50_000 || w.Share(3) != 0 {
		t.Errorf("shares %d %d %d %d, %v", w.Share(0), w.Share(1), w.Share(2), w.Share(3), err)
	}
	for i, want := range []struct {
		name      string
		endpoints int
	}{{"order/version=v1", 2}, {"order/zone=a,version=v2", 1}, {"order-next", 1}, {"order/version=v3", 0}} {
		if ups[i].Name != want.name || len(ups[i].Endpoints) != want.endpoints || ups[i].ConnectTimeout != time.Second {
			t.Errorf("branch %d is %+v, want %s of %d", i, ups[i], want.name, want.endpoints)
		}
	}
	// A subset that no endpoint is in gets nothing here, and is still a pool.
	var pools []string
	for _, u := range c.Pools() {
		pools = append(pools, u.Name)
	}
	if want := []string{"order", "order-next", "shadow", "order/version=v1", "order/zone=a,version=v2", "order/version=v3"}; !slices.Equal(pools, want) {
		t.Errorf("pools %v, want %v", pools, want)
	}
	// One upstream is a split of one.
	if ups, w, err := c.Branches(c.Routes[1]); err != nil || len(ups) != 1 || ups[0].Name != "order" || w.Share(0) != 1_000_000 {
		t.Errorf("a plain route has branches %+v, %v", ups, err)
	}
	if m := c.Routes[1].Mirror; *m != (Mirror{Upstream: "shadow", PPM: 1_000_000, MaxBody: 64 << 10, Timeout: 5 * time.Second}) {
		t.Errorf("the defaults of a mirror are %+v", *m)
	}
}
