package wire_test

import (
	"sync/atomic"
	"testing"

	"breakwater/gateway/wire"
)

// Where somebody wants to know, an exchange is told how late its answer was taken up.
func TestLateAnswers(t *testing.T) {
	address, _ := answers(t, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", false)
	var timed atomic.Bool
	p := pool(t, wire.Config{Timed: timed.Load})
	for _, want := range []bool{false, true, false} {
		timed.Store(want)
		late := false
		for n := 0; n < 100 || want && !late && n < 10_000; n++ { // the kernel begins a moment after it was asked
			x := request("GET", address, "-")
			if body := serveOne(t, p, x); body != "ok" {
				t.Fatalf("body %q", body)
			}
			late = late || x.Late > 0
		}
		if late != want {
			t.Errorf("timed %v: late %v", want, late)
		}
	}
}
