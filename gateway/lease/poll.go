package lease

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"breakwater/gateway/plan"
	"breakwater/gateway/policy/fault"
)

const (
	pollWait = plan.PollMS * time.Millisecond
	// A poll that is not answered this long after its wait is given up.
	pollSlack = 3 * time.Second
	// An answer that says nothing new before the wait is over must not become a
	// busy loop.
	pollPause = 250 * time.Millisecond
	maxPlan   = 8 << 20

	backoffFirst, backoffMost = 250 * time.Millisecond, 2 * time.Second
)

func (p *Poller) follow(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		sent := time.Now()
		changed, err := p.poll(ctx, sent)
		pause := time.Duration(0)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			// Control away longer than a lease ends every fault by itself, so
			// the retries only have to find it soon, not to hammer it.
			pause = min(backoffMost, backoffFirst<<min(failures, 10))
			pause += time.Duration(p.cfg.Rand() * float64(pause) / 2)
			failures++
		default:
			failures = 0
			if !changed && time.Since(sent) < pollWait/2 {
				pause = pollPause
			}
		}
		p.note(err, failures)
		if pause > 0 {
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
			case <-timer.C:
			}
			timer.Stop()
		}
	}
}

// note keeps the error for /stats and logs only when the state changes: a
// control that is away for a night must not fill the log.
func (p *Poller) note(err error, failures int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.lastErr
	p.lastErr = ""
	if err != nil {
		p.lastErr = err.Error()
	}
	switch {
	case failures == 1:
		p.cfg.Log.Warn("plan not had", "err", err)
	case err == nil && before != "":
		p.cfg.Log.Info("plan had again")
	}
}

// poll asks once. Leases count from sent: the time the answer took must not
// make a fault live longer than control granted.
func (p *Poller) poll(ctx context.Context, sent time.Time) (changed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, pollWait+pollSlack)
	defer cancel()
	receipt := p.receipt(sent)
	query := url.Values{
		"epoch":    {strconv.FormatInt(receipt.Epoch, 10)},
		"revision": {strconv.FormatInt(receipt.Revision, 10)},
		"wait":     {pollWait.String()},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(p.cfg.URL, "/")+"/api/v1/plan?"+query.Encode(), nil)
	if err != nil {
		return false, fmt.Errorf("poll plan: %w", err)
	}
	text, err := json.Marshal(receipt)
	if err != nil {
		return false, fmt.Errorf("write receipt: %w", err)
	}
	req.Header.Set(plan.ReceiptHeader, headerText(text))
	if p.cfg.Token != "" { // else the client adds it
		req.Header.Set("Authorization", "Bearer "+p.cfg.Token)
	}
	resp, err := p.cfg.Client.Do(req)
	if err != nil {
		return false, fmt.Errorf("poll plan: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxPlan))
	if err != nil {
		return false, fmt.Errorf("read plan: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("poll plan: control answered %d", resp.StatusCode)
	}
	var got plan.Plan
	if err := json.Unmarshal(body, &got); err != nil {
		return false, fmt.Errorf("read plan: %w", err)
	}
	return p.accept(got, sent)
}

// accept makes got the plan that holds, or refuses it whole: a control that was
// fenced off may still be talking.
func (p *Poller) accept(got plan.Plan, sent time.Time) (changed bool, err error) {
	changed, err = p.take(got, sent)
	if err == nil && p.cfg.Protect != nil {
		p.mu.Lock()
		held := slices.Clone(p.measures)
		p.mu.Unlock()
		p.cfg.Protect(held) // without the lock: it may ask for Stats
	}
	return changed, err
}

func (p *Poller) take(got plan.Plan, sent time.Time) (changed bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if got.Epoch < p.have.Epoch || got.Epoch == p.have.Epoch && got.Revision < p.have.Revision {
		return false, fmt.Errorf("plan refused: epoch %d revision %d is older than %d, %d",
			got.Epoch, got.Revision, p.have.Epoch, p.have.Revision)
	}
	changed = got.Epoch != p.have.Epoch || got.Revision != p.have.Revision
	p.have, p.sent = got, sent
	p.arm()
	if got.Measures != nil { // else control cannot read them now
		p.measures = leased(got.Measures, sent)
	}
	if changed {
		p.cfg.Log.Info("plan changed", "epoch", got.Epoch, "revision", got.Revision,
			"faults", len(got.Faults), "refused", len(p.refused), "measures", len(p.measures))
	}
	return changed, nil
}

// leased gives measures their end. Without a lease one would hold for ever once
// control is gone.
func leased(all []plan.Measure, sent time.Time) []plan.Held {
	var out []plan.Held
	for _, m := range all {
		if ttl := min(m.TTLMS, plan.MeasureTTLMS); ttl > 0 {
			out = append(out, plan.Held{Measure: m, Until: sent.Add(time.Duration(ttl) * time.Millisecond)})
		}
	}
	return out
}

// arm hands the plan that holds to the table. mu is held.
func (p *Poller) arm() {
	var leases []fault.Lease
	refused := []plan.Armed{}
	for _, f := range p.have.Faults {
		reason := ""
		switch hash := plan.HashOf(f.Fault); {
		case f.TTLMS <= 0:
			reason = "a fault must carry a ttl"
		case f.Hash != hash:
			reason = "hash is " + f.Hash + ", the rule as understood here has " + hash
		default:
			ttl := time.Duration(min(f.TTLMS, plan.FaultTTLMS)) * time.Millisecond
			leases = append(leases, fault.Lease{Fault: f.Fault, Hash: f.Hash, Until: p.sent.Add(ttl)})
			continue
		}
		refused = append(refused, plan.Armed{Run: f.Fault.Run, Fault: f.Fault.ID, Hash: f.Hash, PPM: f.Fault.PPM, Reason: reason})
	}
	_, no := p.cfg.Table.Replace(time.Now(), leases)
	p.refused = append(refused, armed(no)...)
}

// receipt says what is held at now.
func (p *Poller) receipt(now time.Time) plan.Receipt {
	var r plan.Receipt
	if p.cfg.Receipt != nil {
		r = p.cfg.Receipt()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r.Epoch, r.Revision, r.NowMS = p.have.Epoch, p.have.Revision, now.UnixMilli()
	r.Armed, r.Refused, r.Halted = armed(p.cfg.Table.Armed(now)), p.refused, p.halted()
	r.Tallies = merge(r.Tallies, p.cfg.Table.Tallies())
	return r
}

// merge puts what the fault layers counted beside what the recorder counted.
func merge(seen []plan.Tally, injected []fault.Tally) []plan.Tally {
	type key struct{ run, service string }
	out := append([]plan.Tally{}, seen...)
	at := make(map[key]int, len(out))
	for i, t := range out {
		at[key{t.Run, t.Service}] = i
	}
	for _, t := range injected {
		i, ok := at[key{t.Run, t.Service}]
		if !ok {
			i = len(out)
			out = append(out, plan.Tally{Run: t.Run, Service: t.Service})
		}
		out[i].Attempts, out[i].Injected = t.Attempts, t.Injected
	}
	return out
}

// headerText escapes what is not plain ASCII, which a header may not carry.
func headerText(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		if r < 0x7f {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String()
}
