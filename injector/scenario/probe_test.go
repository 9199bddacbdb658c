package scenario

import (
	"strings"
	"testing"
	"time"

	"breakwater/internal/conf"
)

func withProbe(probe string) string {
	return "apiVersion: breakwater/v1\nkind: Scenario\nid: x\ntarget: {service: points}\nsample: {percent: \"5%\"}\nphases: {baseline: 10s, inject: 20s, recover: 5s}\n" +
		"faults: [{id: f, error: {status: 503}}]\nhypothesis: {after: [{id: a1, " + probe + "}]}\nstop: [{sli: points.error_rate, op: \">\", value: \"90%\", for: 30s}]\n"
}

func TestProbes(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string // what it expects, or of the mistake
	}{
		{`probe: "http://order:8080/healthz"`, "200-299"},
		{`probe: "https://order/", status: [200, "301-399"], matches: "up|well", within: 1m`, "200 or 301-399 with up|well"},
		{`probe: "ftp://order/"`, `must be an http or https address without a name and password, such as http://points:8080/healthz: its scheme is "ftp"`},
		{`probe: "http://u:p@order/"`, "it holds a name or a password"},
		{`probe: "order/healthz"`, "its scheme is"},
		{`probe: "http:///x"`, "it names no host"},
		{`probe: "http://order/", status: [20]`, "must be a status such as 200"},
		{`probe: "http://order/", status: ["299-200"]`, "must be a status such as 200"},
		{`probe: "http://order/", status: [600]`, "must be a status such as 200"},
		{`probe: "http://order/", matches: "(?!x)"`, "must be a regular expression"},
		{`probe: "http://order/", timeout: 30s`, "timeout: must be"},
		{`probe: "http://order/", op: "<=", value: 3`, "op"},
		{`probe: "http://order/", sli: order.success`, "must stand alone"},
	} {
		set, _, err := Parse(conf.File{Name: "x.yaml", Data: []byte(withProbe(tt.text))})
		if err != nil {
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
			}
			continue
		}
		p := set.Scenarios[0].Probes()
		if len(p) != 1 || p[0].Expects() != tt.want || p[0].Timeout != 3*time.Second {
			t.Errorf("%s: %+v, want %q", tt.text, p, tt.want)
		}
	}
	p := Probe{URL: "https://Order.Shop:8443/x", Statuses: []Statuses{{200, 204}, {500, 500}}, Matches: "^ok"}
	if host, port := p.Host(); host != "order.shop" || port != "8443" {
		t.Errorf("%s %s", host, port)
	}
	for _, tt := range []struct {
		status int
		body   string
		want   bool
	}{{200, "ok then", true}, {204, "not ok", false}, {500, "ok", true}, {205, "ok", false}, {404, "ok", false}} {
		if got := p.Takes(tt.status, []byte(tt.body)); got != tt.want {
			t.Errorf("%d %q: %v", tt.status, tt.body, got)
		}
	}
}

func TestProbesThatMayNotBeMade(t *testing.T) {
	set, _, err := Parse(conf.File{Name: "x.yaml", Data: []byte(withProbe(`probe: "http://order/"`))})
	if err != nil {
		t.Fatal(err)
	}
	for _, barred := range [][]string{nil, {"order"}} {
		refused := false
		for _, w := range set.Scenarios[0].Preflight(Facts{Barred: barred}) {
			refused = refused || w.Code == ProbeBarred && w.Refuse
		}
		if refused != (barred != nil) {
			t.Errorf("barred %v: refused %v", barred, refused)
		}
	}
}
