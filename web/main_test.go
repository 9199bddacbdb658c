package web

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"testing"
	"time"
)

var (
	update  = flag.Bool("update", false, "rewrite the golden pages")
	preview = flag.String("preview", "", "serve made-up worlds on this address instead of testing: shop on it, the others on the next ports")
)

func TestMain(m *testing.M) {
	flag.Parse()
	if *preview != "" {
		servePreview(*preview)
	}
	os.Exit(m.Run())
}

// servePreview is for eyes: pages over made-up worlds without a database. The
// header Host picks the world: empty.localhost, many.localhost, lost.localhost.
func servePreview(addr string) {
	worlds := map[string]http.Handler{}
	for name, build := range map[string]func(time.Time) *house{
		"shop": shop, "empty": empty, "lost": lost, "hostile": hostile,
		"many": func(now time.Time) *house { return many(now, 200) },
	} {
		h := build(noon)
		s := h.server(&testing.T{})
		s.cfg.Heartbeat = 5 * time.Second
		go func() { _ = s.Run(context.Background()) }()
		worlds[name] = s.Handler()
	}
	fmt.Println("shop.localhost, empty.localhost, many.localhost, lost.localhost, hostile.localhost on", addr)
	err := http.ListenAndServe(addr, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOnly(r.Host)
		for name, h := range worlds {
			if host == name+".localhost" {
				h.ServeHTTP(w, r)
				return
			}
		}
		worlds["shop"].ServeHTTP(w, r)
	}))
	fmt.Println(err)
	os.Exit(1)
}
