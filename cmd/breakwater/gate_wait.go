package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"breakwater/slo/gate"
)

// waitEvery is how often a waiting pipeline asks again.
const waitEvery = 5 * time.Second

// askGate asks once, or until the answer is allow or wait is over. A question that
// is none and a token that is not let in do not get better by waiting. The change is
// given a name, so that however often it is asked about it uses an override once.
func (g *gateMemory) askGate(ctx context.Context, io streams, set *settings, r gate.Request, wait, every time.Duration) (gate.Decision, error) {
	if wait > 0 && r.Once == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		r.Once = "cli/" + hex.EncodeToString(b[:])
	}
	until := time.Now().Add(wait)
	said := ""
	for {
		d, err := gate.Ask(ctx, set.baseURL(), set.token, r)
		d, err = g.use(ctx, io, set, r, d, err)
		left := time.Until(until)
		if err == nil && d.Decision == gate.Allow || left <= 0 || ctx.Err() != nil || final(err) {
			return d, err
		}
		now := fmt.Sprintf("%s, %s", d.Decision, d.ReasonCode)
		if err != nil {
			now = err.Error()
		}
		if now != said {
			said = now
			fmt.Fprintf(io.err, "breakwater: %s; waits up to %s\n", now, left.Round(time.Second))
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(every, left)):
		}
	}
}

func final(err error) bool {
	refused, ok := errors.AsType[*gate.Refused](err)
	return ok && refused.Status >= 400 && refused.Status < 500 && refused.Status != http.StatusTooManyRequests && refused.Status != http.StatusRequestTimeout
}
