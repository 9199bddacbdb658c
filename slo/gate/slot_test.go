package gate

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
	"breakwater/slo/freeze"
)

// slots gives slots as the database does.
type slots struct {
	mu   sync.Mutex
	live []slo.Deploy
	ends []slo.DeployEnd
	err  error
}

func (s *slots) BeginDeploy(_ context.Context, d slo.Deploy, full func([]slo.Deploy) bool, now time.Time) (slo.Deploy, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return slo.Deploy{}, false, s.err
	}
	s.live = freeze.Under(s.live, now)
	for i, l := range s.live {
		if l.Same(d) {
			s.live[i].Until = d.Until
			return s.live[i], true, nil
		}
	}
	if full(s.live) {
		return slo.Deploy{}, false, nil
	}
	d.ID, d.Begun = "dp-"+d.Ref, now
	s.live = append(s.live, d)
	return d, true, nil
}

func (s *slots) EndDeploy(_ context.Context, e slo.DeployEnd, _ time.Time) (int, error) {
	s.ends = append(s.ends, e)
	before := len(s.live)
	s.live = slices.DeleteFunc(s.live, func(d slo.Deploy) bool { return d.Service == e.Service && d.Key == e.Key })
	return before - len(s.live), s.err
}

// harbour is a gate whose policy lets one deploy of order out at a time.
type harbour struct {
	*Gate
	slots *slots
	book  *book
	now   time.Time
}

func newHarbour(t *testing.T, level slo.Level, change func(*freeze.Policy)) *harbour {
	t.Helper()
	p := freeze.Default()
	p.Name, p.Acts = "shop", []freeze.Act{{From: slo.Normal, Deploys: &freeze.Cap{AtMost: 1, Lasts: 10 * time.Minute}}}
	if change != nil {
		change(&p)
	}
	h := &harbour{slots: &slots{}, book: &book{known: freeze.Known{Policies: []freeze.Policy{p}}, once: map[string]bool{}}, now: noon}
	h.Gate = New(Config{Source: fixed{status(level, 80)}, Keeper: &keeper{}, Book: h.book, Slots: h.slots, Now: func() time.Time { return h.now }})
	return h
}

func (h *harbour) ask(ref string, more ...func(*Request)) Decision {
	r := Request{Service: "order", Env: "prod", Kind: Feature, Ref: ref}
	for _, m := range more {
		m(&r)
	}
	return h.Answer(auth.With(context.Background(), auth.Principal{Name: "ci-" + ref, Role: auth.Pipeline}), r)
}

// slo.md C1: cap concurrency of deploys.
func TestSLO_C1_DeploysAreCapped(t *testing.T) {
	h := newHarbour(t, slo.Normal, nil)
	first := h.ask("v1")
	if first.Decision != Allow || first.ReasonCode != "budget_ok" || first.Slot == nil || first.Slot.ID == "" || !first.Slot.Until.Equal(noon.Add(10*time.Minute)) || first.Slot.AtMost != 1 {
		t.Fatalf("%+v, %+v", first, first.Slot)
	}
	held := h.ask("v2")
	if held.Decision != Hold || held.ReasonCode != CodeSlotsTaken || len(held.Slot.Holders) != 1 || held.Slot.Holders[0].By != "ci-v1" || held.Slot.ID != "" {
		t.Fatalf("%+v, %+v", held, held.Slot)
	}
	if text := strings.Join(held.Reasons, " "); !strings.Contains(text, "v1 of order (ci-v1, since 12:00:00Z, until 12:10:00Z at the latest)") {
		t.Errorf("it does not say who holds the slot: %s", text)
	}
	wire, err := json.Marshal(held)
	if err != nil || !strings.Contains(string(wire), `"holders":[{"id":"dp-v1"`) {
		t.Errorf("%s, %v", wire, err)
	}
	if again := h.ask("v1"); again.Decision != Allow || len(h.slots.live) != 1 {
		t.Errorf("asked again it waits for itself: %+v", again)
	}
	if _, err := h.slots.EndDeploy(t.Context(), slo.DeployEnd{Service: "order", Key: "ref/v1"}, noon); err != nil {
		t.Fatal(err)
	}
	if next := h.ask("v2"); next.Decision != Allow {
		t.Errorf("the slot is free: %+v", next)
	}
	// A pipeline that died frees its slot.
	h.now = noon.Add(10*time.Minute + time.Second)
	h.Gate.cfg.Source = fixed{func() slo.Status { s := status(slo.Normal, 80); s.At = h.now; return s }()}
	if next := h.ask("v3"); next.Decision != Allow {
		t.Errorf("its lease is over: %+v", next)
	}
}

func TestACapHoldsByState(t *testing.T) {
	emergency := func(p *freeze.Policy) { p.Acts[0].From = slo.Emergency }
	if h := newHarbour(t, slo.Warn, emergency); h.ask("v1").Slot != nil || h.ask("v2").Decision != Allow || len(h.slots.live) != 0 {
		t.Error("a milder state is capped")
	}
	h := newHarbour(t, slo.Emergency, emergency)
	if h.ask("v1").ReasonCode != "require_canary" || h.ask("v2").ReasonCode != CodeSlotsTaken {
		t.Error("in that state it is not capped")
	}
}

// Missing data is never an allow, unless the policy asked for it in writing.
func TestSLO_C1_WithoutTheDatabaseNoSlotIsGiven(t *testing.T) {
	h := newHarbour(t, slo.Normal, nil)
	h.slots.err = errors.New("away")
	if d := h.ask("v1"); d.Decision != Unclear || d.ReasonCode != CodeSlotsUnknown || d.Slot != nil {
		t.Errorf("%+v", d)
	}
	h.Gate.cfg.Slots = nil
	if d := h.ask("v1"); d.Decision != Unclear {
		t.Errorf("nobody gives slots: %+v", d)
	}
	h = newHarbour(t, slo.Normal, func(p *freeze.Policy) { p.OnUnknown = []freeze.Settle{{Allow: true}} })
	h.slots.err = errors.New("away")
	if d := h.ask("v1"); d.Decision != Allow || d.ReasonCode != "unknown_allowed" || !strings.Contains(strings.Join(d.Reasons, " "), "policy shop asks for allow") {
		t.Errorf("asked for in writing: %+v", d)
	}
}

func TestWhatHasNoNameGetsNoSlot(t *testing.T) {
	h := newHarbour(t, slo.Normal, nil)
	if d := h.ask("", func(r *Request) { r.Standing = true }); d.Decision != Allow || len(h.slots.live) != 0 {
		t.Errorf("how things stand: %+v", d)
	}
	if d := h.Look(Request{Service: "order", Env: "prod", Kind: Feature}); d.Decision != Allow {
		t.Errorf("a page that looks: %+v", d)
	}
	if d := h.ask("", func(r *Request) { r.DryRun = true }); d.ReasonCode != CodeNotNamed {
		t.Errorf("a dry run: %+v", d)
	}
	if d := h.ask(""); d.Decision != Hold || d.ReasonCode != CodeNotNamed || len(h.slots.live) != 0 {
		t.Errorf("%+v", d)
	}
	once := func(r *Request) { r.Once = "flagger/shop/order/1" }
	for range 2 {
		if d := h.ask("", once); d.Decision != Allow || len(h.slots.live) != 1 {
			t.Errorf("%+v with %+v", d, h.slots.live)
		}
	}
}

// What ends an outage does not wait behind what made it; its kind must be proven.
func TestAProvenRollbackWaitsForNoSlot(t *testing.T) {
	h := newHarbour(t, slo.Frozen, func(p *freeze.Policy) {
		p.Passes = []freeze.Pass{{Kind: Rollback, Proofs: []freeze.Proof{freeze.History}}}
	})
	h.slots.live = []slo.Deploy{{Service: "order", Env: "prod", Ref: "v2", Key: "ref/v2", Until: noon.Add(time.Hour)}}
	h.book.known.Causes = []slo.Cause{{Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: "v1", From: noon.Add(-2 * time.Hour)}, {Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: "v2", From: noon.Add(-time.Hour)}}
	rollback := func(r *Request) { r.Kind = Rollback }
	if d := h.ask("v1", rollback); d.Decision != Allow || d.ProvenBy != freeze.History || len(h.slots.live) != 2 {
		t.Errorf("%+v with %+v", d, h.slots.live)
	}
	if d := h.ask("v9", rollback); d.Decision != Deny {
		t.Errorf("not proven: %+v", d)
	}
	h.slots.err = errors.New("away")
	if d := h.ask("v1", rollback); d.Decision != Allow {
		t.Errorf("without a database: %+v", d)
	}
}

func TestWhatWaitsUsesNoOverride(t *testing.T) {
	granted := noon.Add(-time.Minute)
	override := freeze.Override{ID: "o-1", Service: "order", Env: "prod", Ref: "v2", Reason: "customers cannot pay", Ticket: "INC-7", AskedBy: "ann", AskedAt: granted,
		ExpiresAt: noon.Add(time.Hour), MaxUses: 1, GrantedBy: "bob", GrantedAt: &granted}
	h := newHarbour(t, slo.Frozen, nil)
	h.book.known.Overrides = []freeze.Override{override}
	h.slots.live = []slo.Deploy{{Service: "order", Env: "prod", Ref: "v1", Key: "ref/v1", Until: noon.Add(time.Hour)}}
	if d := h.ask("v2"); d.Decision != Hold || d.Override != nil || h.book.known.Overrides[0].Used != 0 {
		t.Errorf("%+v, used %d", d, h.book.known.Overrides[0].Used)
	}
	h.slots.live = nil
	if d := h.ask("v2"); d.Decision != Allow || d.Override == nil || d.Slot == nil {
		t.Errorf("%+v", d)
	}
	// Used up meanwhile: the slot is given back at once.
	h = newHarbour(t, slo.Frozen, nil)
	h.book.known.Overrides, h.book.away = []freeze.Override{override}, errors.New("away")
	if d := h.ask("v2"); d.Decision == Allow || len(h.slots.live) != 0 || len(h.slots.ends) != 1 || h.slots.ends[0].Outcome != slo.DeployRefused {
		t.Errorf("%+v, %+v, %+v", d, h.slots.live, h.slots.ends)
	}
}

func TestACapThatOnlyWatches(t *testing.T) {
	h := newHarbour(t, slo.Normal, func(p *freeze.Policy) { p.DryRun = true })
	h.ask("v1")
	if d := h.ask("v2"); d.Decision != Allow || d.Would != Hold || len(h.slots.live) != 2 {
		t.Errorf("%+v with %+v", d, h.slots.live)
	}
	h.slots.err = errors.New("away")
	if d := h.ask("v3"); d.Decision != Allow {
		t.Errorf("without a database it holds somebody up: %+v", d)
	}
}

// A question without effect takes nothing, and says what it would get.
func TestADryRunTakesNoSlot(t *testing.T) {
	h := newHarbour(t, slo.Normal, nil)
	dry := func(r *Request) { r.DryRun = true }
	if d := h.ask("v1", dry); d.Decision != Allow || len(h.slots.live) != 0 {
		t.Errorf("%+v", d)
	}
	h.book.known.Deploys = []slo.Deploy{{Service: "order", Env: "prod", Ref: "v1", Key: "ref/v1", Until: noon.Add(time.Hour)}, {Service: "order", Ref: "v0", Key: "ref/v0", Until: noon}}
	if d := h.ask("v2", dry); d.Decision != Hold || d.ReasonCode != CodeSlotsTaken || len(d.Slot.Holders) != 1 {
		t.Errorf("%+v", d)
	}
	if d := h.ask("v1", dry); d.Decision != Allow {
		t.Errorf("it holds the slot: %+v", d)
	}
}

// Many ask at once: each gets a slot or who has it, and never more than the cap do.
func TestNeverMoreThanTheCap(t *testing.T) {
	h := newHarbour(t, slo.Normal, func(p *freeze.Policy) { p.Acts[0].Deploys.AtMost = 3 })
	h.Gate.cfg.Keeper = nil // that of these tests is for one at a time
	var wg sync.WaitGroup
	answers := make([]Decision, 40)
	for i := range answers {
		wg.Go(func() { answers[i] = h.ask("v" + string(rune('a'+i/26)) + string(rune('a'+i%26))) })
	}
	wg.Wait()
	allowed := 0
	for _, d := range answers {
		if d.Decision == Allow {
			allowed++
		}
	}
	if allowed != 3 || len(h.slots.live) != 3 {
		t.Errorf("%d were let out, %d hold slots", allowed, len(h.slots.live))
	}
}
