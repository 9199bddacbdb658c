package front_test

import (
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"breakwater/gateway/front"
)

// TestReliability_X118_Others is the other half of F13: what a client on a connection
// of its own feels, while another sends 5,000 streams a second and takes them back,
// and comes again each time it was cut. It is held against as many requests that are
// let come to their end: on a machine that attacker and front share, a calm one would
// measure the machine. They take turns, so that a stall spoils one slice and not
// the figure.
func TestReliability_X118_Others(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for seconds: part of make test, not of make check")
	}
	address := listen(t, front.Config{Service: new(waiter)})
	other, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	const turns, slice = 7, 200 * time.Millisecond
	var calm, load, storm []time.Duration
	var asked, reset int
	under := func(cancel bool, total *int) time.Duration {
		stop, sent := make(chan struct{}), make(chan int)
		go func() { sent <- streams(t, address, cancel, stop) }()
		got := p99(t, other, slice)
		close(stop)
		*total += <-sent
		return got
	}
	p99(t, other, slice) // warms up
	// A shared machine may stall through most of one measurement, hardly of three.
	const tries, mid = 3, turns / 2
	for try := 1; ; try++ {
		calm, load, storm, asked, reset = calm[:0], load[:0], storm[:0], 0, 0
		for range turns {
			calm = append(calm, p99(t, other, slice))
			load = append(load, under(false, &asked))
			storm = append(storm, under(true, &reset))
		}
		for _, s := range [][]time.Duration{calm, load, storm} {
			slices.Sort(s)
		}
		t.Logf("another client's p99: %v in calm, %v with %d streams in %v, %v with %d that were reset",
			calm[mid], load[mid], asked, turns*slice, storm[mid], reset)
		if least := int((turns * slice).Seconds() * 1000); asked < least || reset < least {
			t.Errorf("only %d and %d streams were sent", asked, reset)
		}
		if storm[mid] < 2*load[mid] {
			return
		}
		if try == tries {
			t.Fatalf("another client's p99 is %v while streams are reset, and %v while they are not, want less than 2x", storm[mid], load[mid])
		}
	}
}

// p99 asks on c, a request a millisecond, for d.
func p99(t *testing.T, c net.Conn, d time.Duration) time.Duration {
	t.Helper()
	var took []time.Duration
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		start := time.Now()
		askFor(t, c, "/well")
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}

// streams begins five streams a millisecond until stop is closed, on a new connection
// whenever one was cut, and returns how many it sent.
func streams(t *testing.T, address string, cancel bool, stop chan struct{}) (sent int) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	var c *h2client
	path := "/well"
	if cancel {
		path = "/slow"
	}
	for id := uint32(1); ; {
		select {
		case <-stop:
			if c != nil {
				_ = c.Close()
			}
			return sent
		case <-tick.C:
		}
		for range 5 {
			if c == nil {
				nc, err := net.Dial("tcp", address)
				if err != nil {
					t.Error(err)
					return sent
				}
				go func() { _, _ = io.Copy(io.Discard, nc) }() // ends with the connection
				c, id = newH2(nc), 1
				_ = c.begin()
			}
			err := c.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: c.head(":path", path), EndStream: true, EndHeaders: true})
			if err == nil && cancel {
				err = c.WriteRSTStream(id, http2.ErrCodeCancel)
			}
			if err != nil {
				_ = c.Close()
				c = nil
				continue
			}
			id += 2
			sent++
		}
	}
}
