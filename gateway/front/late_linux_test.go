package front_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
)

// Where somebody wants to know, an exchange is told how late its request was taken up.
func TestLateRequests(t *testing.T) {
	var timed atomic.Bool
	late := make(chan time.Duration, 8)
	address := listen(t, front.Config{Listening: quickly, Timed: timed.Load, Service: exchange.Func(func(x *exchange.Exchange) error {
		if since := time.Since(x.Event.Start); since < x.Late {
			t.Errorf("%v late, and begun %v ago: it begins when it came", x.Late, since)
		}
		late <- x.Late
		return echo(x)
	})})
	conn, r := dialed(t, address)
	ask := func() time.Duration {
		say(t, conn, "GET /a HTTP/1.1\r\nHost: a\r\n\r\n")
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		return <-late
	}
	for _, want := range []bool{false, true, false} {
		timed.Store(want)
		ask() // its read began before
		is := false
		for n := 0; n < 100 || want && !is && n < 10_000; n++ { // the kernel begins a moment after it was asked
			is = ask() > 0 || is
		}
		if is != want {
			t.Errorf("timed %v: late %v", want, is)
		}
	}
	timed.Store(true)
	for ask() == 0 { // stamped again
	}
	// Of two that come together the second waited for the first, and not for us.
	say(t, conn, "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /a HTTP/1.1\r\nHost: a\r\n\r\n")
	for range 2 {
		res, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
	}
	if first, second := <-late, <-late; first == 0 || second != 0 {
		t.Errorf("%v and %v late, want the first alone", first, second)
	}
}
