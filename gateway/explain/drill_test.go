package explain

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/fault"
	"breakwater/gateway/policy/retry"
	"breakwater/internal/retrylog"
)

// drill sends n GETs through retry over a fault that answers 503 to half of all
// tries, 1 ms apart, and counts what clients saw and how many tries there were.
func drill(t *testing.T, n, maxRetries int, key string, status int, budget *retry.Budget) (failed, tries, seenBelow int, tally fault.Tally) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		table := fault.NewTable(fault.Caps{})
		_, refused := table.Replace(time.Now(), []fault.Lease{{Until: time.Now().Add(24 * time.Hour), Hash: "h", Fault: fault.Fault{
			ID: "half", Run: "run", Seed: "r63", Key: key, PPM: 500_000, Target: fault.Target{Service: "points"},
			Kind: fault.Error, Status: status, Headers: map[string]string{"X-Backend-Status": "overloaded"}}}})
		if len(refused) > 0 {
			t.Fatal(refused)
		}
		good := exchange.Func(func(x *exchange.Exchange) error { x.Response.Status = 200; return nil })
		// What balance does, as far as retry and fault see it; its window sees the
		// injected failures as the upstream's.
		pick := func(next exchange.Service) exchange.Service {
			return exchange.Func(func(x *exchange.Exchange) error {
				x.Event.Tries = append(x.Event.Tries, retrylog.Try{Endpoint: "a:1"})
				tries++
				err := next.Serve(x)
				if exchange.Classify(err, x.Response.Status) == retrylog.UpstreamFailure {
					seenBelow++
				}
				return err
			})
		}
		policy := retry.Config{Enabled: true, MaxRetries: maxRetries, PerTry: 800 * time.Millisecond, OnStatus: []int{502, 503, 504}, BackoffBase: time.Millisecond, Fallback: retry.PassThrough}
		svc := exchange.Chain(good, retry.Layer(policy, retry.Deps{Endpoints: 1, Budget: budget}), pick, fault.Layer(table, fault.Site{Service: "points", Route: "r"}))
		x := new(exchange.Exchange)
		for i := range n {
			x.Reset()
			x.Request.Method, x.Event.RequestID = "GET", fmt.Sprintf("req-%d", i)
			x.Request.Body.Set(nil, 0)
			if err := svc.Serve(x); err != nil {
				t.Fatal(err)
			}
			if x.Response.Status != 200 {
				failed++
			}
			x.End(exchange.Classify(nil, x.Response.Status))
			time.Sleep(time.Millisecond)
		}
		tally = table.Tallies()[0]
	})
	return failed, tries, seenBelow, tally
}

func near(got, want, slack float64) bool { return got >= want-slack && got <= want+slack }

// R63: injected failures are retried like any other: half cubed is left.
func TestPolicies_R63(t *testing.T) {
	const n = 10_000
	failed, tries, seen, tally := drill(t, n, 2, fault.KeyAttempt, 503, nil)
	if !near(float64(failed)/n, .125, .01) || !near(float64(tries)/n, 1.75, .03) {
		t.Errorf("%.4f of requests failed after %.3f tries each, want 0.125 and 1.75", float64(failed)/n, float64(tries)/n)
	}
	if int64(tries) != tally.Attempts || int64(seen) != tally.Injected {
		t.Errorf("tally %+v, want %d attempts, %d injected", tally, tries, seen)
	}
}

// R63: with the budget on, extra tries stay within a fifth.
func TestPolicies_R63_Budget(t *testing.T) {
	const n = 20_000
	b := retry.NewBudget(retry.BudgetConfig{RatioMilli: 200, MinPerSec: 10, TTL: 10 * time.Second})
	_, tries, _, _ := drill(t, n, 2, fault.KeyAttempt, 503, b)
	if extra := float64(tries-n) / n; extra > .22 || extra < .15 {
		t.Errorf("%.3f extra tries a request, want at most a fifth, and about that", extra)
	}
}

// C15: with one retry a half becomes a quarter.
func TestChaos_C15(t *testing.T) {
	const n = 10_000
	failed, _, _, _ := drill(t, n, 1, fault.KeyAttempt, 503, nil)
	if !near(float64(failed)/n, .25, .015) {
		t.Errorf("%.4f of requests failed, want 0.25", float64(failed)/n)
	}
}

// With the request as key a retry meets the same fault: half stays half.
func TestKeyRequestIsNotHelpedByRetries(t *testing.T) {
	const n = 10_000
	failed, _, _, _ := drill(t, n, 1, fault.KeyRequest, 503, nil)
	if !near(float64(failed)/n, .5, .015) {
		t.Errorf("%.4f of requests failed, want 0.5", float64(failed)/n)
	}
}

// C19: what is injected and what users see are two figures.
func TestChaos_C19(t *testing.T) {
	const n = 10_000
	failed, _, _, tally := drill(t, n, 2, fault.KeyAttempt, 502, nil)
	if !near(float64(tally.Injected)/float64(tally.Attempts), .5, .015) || !near(float64(failed)/n, .125, .01) {
		t.Errorf("injected %d of %d tries, %d of %d users saw it", tally.Injected, tally.Attempts, failed, n)
	}
}
