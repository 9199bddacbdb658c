package config

import (
	"os"
	"strings"
	"testing"
	"time"

	"breakwater/internal/conf"
)

func TestUpstreamsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/upstreams.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	sample, _, _ := strings.Cut(rest, "```")
	var log conf.Log
	c := Parse([]conf.File{{Name: "upstreams.md", Data: []byte(sample)}}, &log)
	if len(log.All()) > 0 {
		t.Fatalf("got\n%v", log.All())
	}
	u := c.Upstreams[0]
	if u.Health == nil || u.Ejection == nil || u.PanicPPM != 300_000 || u.HeaderTimeout != 2*time.Second || len(c.Routes) != 1 {
		t.Errorf("got %+v", u)
	}
}

func TestUpstreamKeys(t *testing.T) {
	with := func(keys string) string { return strings.Replace(head, "endpoints:", keys+"\nendpoints:", 1) }
	plain, log := parse(head)
	if u := plain.Upstreams[0]; log.Err() != nil || u.Health != nil || u.Ejection != nil || u.PanicPPM != 0 || u.HeaderTimeout != 0 {
		t.Errorf("without any key: %+v, %v", u, log.All())
	}
	c, log := parse(with("health: {path: /healthz}\nejection: {}\npanic_threshold: \"50%\"\nresponse_header_timeout: 2s"))
	u := c.Upstreams[0]
	if len(log.All()) > 0 || u.PanicPPM != 500_000 || u.HeaderTimeout != 2*time.Second {
		t.Errorf("got %+v, %v", u, log.All())
	}
	if want := (Health{"/healthz", 5 * time.Second, time.Second, 2, 3}); u.Health == nil || *u.Health != want {
		t.Errorf("health %+v, want %+v", u.Health, want)
	}
	if want := (Ejection{5, 10 * time.Second, 500_000}); u.Ejection == nil || *u.Ejection != want {
		t.Errorf("ejection %+v, want %+v", u.Ejection, want)
	}
	if plain.Hash == c.Hash {
		t.Error("the hash does not know the keys")
	}
	c, log = parse(with("health: {path: /, interval: 500ms}"))
	if h := c.Upstreams[0].Health; len(log.All()) > 0 || h.Timeout != 500*time.Millisecond {
		t.Errorf("a short interval: %+v, %v", h, log.All())
	}
}
