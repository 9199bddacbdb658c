package toxic_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"breakwater/gateway/policy/fault"
)

// The whole vocabulary of the real client.
func TestTheRealClient(t *testing.T) {
	w := newWorld(t, fault.Caps{})
	p := w.proxy(t, "redis")
	if p.Name != "redis" || !p.Enabled || p.Upstream != w.upstream || strings.HasSuffix(p.Listen, ":0") {
		t.Fatalf("created %+v", p)
	}
	if _, err := w.CreateProxy("redis", "127.0.0.1:0", w.upstream); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("a second one of the name: %v", err)
	}
	if _, err := w.CreateProxy("", "127.0.0.1:0", w.upstream); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("one without a name: %v", err)
	}
	if got, _, err := echo(dial(t, p.Listen), "hello"); got != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}

	for _, tt := range []struct {
		kind       string
		attributes toxiproxy.Attributes
		changed    toxiproxy.Attributes
	}{
		{"latency", toxiproxy.Attributes{"latency": 100, "jitter": 10}, toxiproxy.Attributes{"jitter": 5}},
		{"bandwidth", toxiproxy.Attributes{"rate": 100}, toxiproxy.Attributes{"rate": 1000}},
		{"slow_close", toxiproxy.Attributes{"delay": 100}, toxiproxy.Attributes{"delay": 10}},
		{"timeout", toxiproxy.Attributes{"timeout": 100}, toxiproxy.Attributes{"timeout": 0}},
		{"reset_peer", toxiproxy.Attributes{"timeout": 100}, toxiproxy.Attributes{"timeout": 200}},
		{"slicer", toxiproxy.Attributes{"average_size": 10, "size_variation": 5, "delay": 10}, toxiproxy.Attributes{"delay": 0}},
		{"limit_data", toxiproxy.Attributes{"bytes": 100}, toxiproxy.Attributes{"bytes": 200}},
	} {
		for _, stream := range []string{"upstream", "downstream"} {
			got := w.poison(t, p, tt.kind, stream, 0.25, tt.attributes)
			if got.Name != tt.kind+"_"+stream || got.Type != tt.kind || got.Stream != stream || got.Toxicity != 0.25 {
				t.Errorf("added %+v", got)
			}
			for name, v := range tt.attributes {
				if fmt.Sprint(got.Attributes[name]) != fmt.Sprint(v) {
					t.Errorf("%s: %s is %v, want %v", tt.kind, name, got.Attributes[name], v)
				}
			}
			got, err := p.UpdateToxic(got.Name, -1, tt.changed)
			if err != nil || got.Toxicity != 0.25 {
				t.Fatalf("updated %+v, %v", got, err)
			}
			for name, v := range tt.attributes {
				if n, ok := tt.changed[name]; ok {
					v = n
				}
				if fmt.Sprint(got.Attributes[name]) != fmt.Sprint(v) {
					t.Errorf("%s, updated: %s is %v, want %v", tt.kind, name, got.Attributes[name], v)
				}
			}
			if got, err := p.UpdateToxic(got.Name, 0.5, nil); err != nil || got.Toxicity != 0.5 {
				t.Errorf("updated %+v, %v", got, err)
			}
		}
	}
	if toxics, err := p.Toxics(); err != nil || len(toxics) != 14 {
		t.Errorf("%d toxics, %v", len(toxics), err)
	}
	if _, err := p.AddToxic("", "latency", "downstream", 1, nil); err == nil || !strings.Contains(err.Error(), "409") {
		t.Errorf("a second one of the name: %v", err)
	}
	for _, wrong := range []struct {
		kind, stream string
		toxicity     float32
		attributes   toxiproxy.Attributes
	}{
		{"explode", "", 1, nil}, {"latency", "sideways", 1, nil}, {"latency", "", 1.5, nil},
		{"latency", "", 1, toxiproxy.Attributes{"latency": 100, "jitter": 300}}, // chaos C7
		{"latency", "", 1, toxiproxy.Attributes{"latency": -1}}, {"latency", "", 1, toxiproxy.Attributes{"latency": "long"}},
		{"slicer", "", 1, toxiproxy.Attributes{"average_size": 5, "size_variation": 5}},
		{"latency", "", 1, toxiproxy.Attributes{"latency": 3_600_000}}, // the cap
	} {
		if got, err := p.AddToxic("wrong", wrong.kind, wrong.stream, wrong.toxicity, wrong.attributes); err == nil || !strings.Contains(err.Error(), "400") {
			t.Errorf("%+v is taken: %+v, %v", wrong, got, err)
		}
	}
	if err := p.RemoveToxic("latency_upstream"); err != nil {
		t.Error(err)
	}
	if err := p.RemoveToxic("latency_upstream"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("removed twice: %v", err)
	}

	c := dial(t, p.Listen)
	if err := p.Disable(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Read(make([]byte, 1)); err == nil {
		t.Error("a connection outlives its proxy")
	}
	if _, err := net.Dial("tcp", p.Listen); err == nil {
		t.Error("a disabled proxy takes connections")
	}
	before := p.Listen
	if err := p.Enable(); err != nil || p.Listen != before || !p.Enabled {
		t.Fatalf("%+v, %v", p, err)
	}
	if err := p.Disable(); err != nil {
		t.Fatal(err)
	}
	if err := w.ResetState(); err != nil {
		t.Fatal(err)
	}
	p, err := w.Proxy("redis")
	if err != nil || !p.Enabled || len(p.ActiveToxics) != 0 {
		t.Errorf("after the reset %+v, %v", p, err)
	}
	if got, _, err := echo(dial(t, p.Listen), "hello"); got != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	p.Upstream = "127.0.0.1:1"
	if err := p.Save(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := echo(dial(t, p.Listen), "hello"); err == nil {
		t.Error("an upstream that is not there answers")
	}

	list, err := w.Populate([]toxiproxy.Proxy{{Name: "redis", Listen: "127.0.0.1:0", Upstream: w.upstream, Enabled: true}, {Name: "mysql", Listen: "127.0.0.1:0", Upstream: w.upstream}})
	if err != nil || len(list) != 2 || list[0].Upstream != w.upstream || list[1].Name != "mysql" || list[1].Enabled {
		t.Fatalf("populated %+v, %v", list, err)
	}
	if _, err := w.Populate([]toxiproxy.Proxy{{Name: "bad"}}); err == nil || !strings.Contains(err.Error(), "400") {
		t.Errorf("populated without an upstream: %v", err)
	}
	if all, err := w.Proxies(); err != nil || len(all) != 2 {
		t.Errorf("%d proxies, %v", len(all), err)
	}
	if _, err := w.AddToxic(&toxiproxy.ToxicOptions{ProxyName: "mysql", ToxicName: "slow", ToxicType: "latency", Toxicity: 1, Attributes: toxiproxy.Attributes{"latency": 10}}); err != nil {
		t.Error(err)
	}
	if _, err := w.UpdateToxic(&toxiproxy.ToxicOptions{ProxyName: "mysql", ToxicName: "slow", Toxicity: 0.5}); err != nil {
		t.Error(err)
	}
	if err := w.RemoveToxic(&toxiproxy.ToxicOptions{ProxyName: "mysql", ToxicName: "slow"}); err != nil {
		t.Error(err)
	}
	if err := list[1].Delete(); err != nil {
		t.Error(err)
	}
	if _, err := w.Proxy("mysql"); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("deleted, and there: %v", err)
	}
}

func TestBrowsersAreNotServed(t *testing.T) {
	w := newWorld(t, fault.Caps{})
	for name, value := range map[string]string{"User-Agent": "Mozilla/5.0", "Sec-Fetch-Site": "cross-site"} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", w.api+"/reset", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set(name, value)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 403 {
			t.Errorf("%s: %d", name, res.StatusCode)
		}
	}
}
