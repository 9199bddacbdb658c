// Package lease keeps a gateway's faults and protective measures in step with
// control's plan: it long-polls the plan, arms what it names for as long as its
// leases run, and disarms what it does not name. Losing control ends every
// fault; the kill switch ends them at once.
package lease

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"breakwater/gateway/plan"
	"breakwater/gateway/policy/fault"
)

// Table is where faults are armed; *fault.Table is one.
type Table interface {
	Replace(now time.Time, leases []fault.Lease) (armed, refused []fault.State)
	Halt()
	Resume()
	Armed(now time.Time) []fault.State
	Tallies() []fault.Tally
}

// Config of a Poller.
type Config struct {
	// URL of control, without a path. Empty: there is no control, only the kill switch works.
	URL   string
	Token string
	// Client sends the polls; nil is a plain one. It must not time out before a
	// poll does, which takes up to plan.PollMS.
	Client *http.Client
	Table  Table
	// Receipt gives what the Poller cannot know: gateway, boot, the configuration
	// served, and the tallies by service and run. The Poller adds the rest.
	Receipt func() plan.Receipt
	// Protect is told of the measures in force with each plan that is taken: it puts
	// them to work and ends them at their time. nil: they are only shown.
	Protect func([]plan.Held)
	// HaltFile stops all faults as long as it exists. Empty: none is watched.
	HaltFile string
	// Rand spreads the retries of many gateways; nil spreads nothing.
	Rand func() float64
	Log  *slog.Logger // nil: slog.Default
}

// Stats is the state of a Poller, for /stats.
type Stats struct {
	Epoch    int64 `json:"epoch"`
	Revision int64 `json:"revision"`
	// AnsweredAt is when the last accepted poll was sent.
	AnsweredAt time.Time      `json:"answered_at"`
	LastError  string         `json:"last_error,omitempty"`
	Halted     bool           `json:"halted"`
	HaltReason string         `json:"halt_reason,omitempty"`
	Armed      []plan.Armed   `json:"armed"`
	Refused    []plan.Armed   `json:"refused"`
	Measures   []plan.Measure `json:"measures"`
}

// Poller follows the plan. It is safe for concurrent use.
type Poller struct {
	cfg Config

	mu       sync.Mutex
	have     plan.Plan
	sent     time.Time // when the poll was sent that brought have, or renewed it
	refused  []plan.Armed
	measures []plan.Held
	lastErr  string
	byHand   string // why a person halted; "" is no halt
	byFile   bool
}

// New returns a Poller that holds no plan yet.
func New(cfg Config) *Poller {
	if cfg.Client == nil {
		cfg.Client = &http.Client{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Rand == nil {
		cfg.Rand = func() float64 { return 0 }
	}
	return &Poller{cfg: cfg}
}

// Run polls and watches the halt file until ctx ends.
func (p *Poller) Run(ctx context.Context) error {
	p.lookForFile()
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(fileEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				p.lookForFile()
			}
		}
	})
	if p.cfg.URL != "" {
		p.follow(ctx)
	}
	group.Wait()
	return nil
}

// fileEvery is how soon a halt file works: a look costs one stat.
const fileEvery = 200 * time.Millisecond

// Halt ends every fault at once and refuses new ones until Resume. It needs
// nothing but this process: the admin page, a signal or a test may call it.
func (p *Poller) Halt(reason string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reason == "" {
		reason = "halted"
	}
	p.byHand = reason
	p.cfg.Table.Halt()
	p.cfg.Log.Warn("faults halted", "reason", reason)
}

// Resume takes Halt back. It fails as long as the halt file exists.
func (p *Poller) Resume() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.byHand = ""
	if p.byFile {
		return fmt.Errorf("resume faults: %s still exists", p.cfg.HaltFile)
	}
	p.release()
	return nil
}

// lookForFile makes the halt file's presence hold. A file that cannot be looked
// at changes nothing: neither a halt nor a resume may come from an accident.
func (p *Poller) lookForFile() {
	if p.cfg.HaltFile == "" {
		return
	}
	_, err := os.Stat(p.cfg.HaltFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch there := err == nil; {
	case there && !p.byFile:
		p.byFile = true
		p.cfg.Table.Halt()
		p.cfg.Log.Warn("faults halted", "reason", "halt file", "path", p.cfg.HaltFile)
	case !there && p.byFile:
		p.byFile = false
		if p.byHand == "" {
			p.release()
		}
	}
}

// release lets faults live again, and arms at once what the last plan still
// leases: the next poll may be seconds away. mu is held.
func (p *Poller) release() {
	p.cfg.Table.Resume()
	p.cfg.Log.Warn("faults may be armed again")
	p.arm()
}

// Stats tells what holds now.
func (p *Poller) Stats() Stats {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	s := Stats{
		Epoch: p.have.Epoch, Revision: p.have.Revision, AnsweredAt: p.sent, LastError: p.lastErr,
		Halted: p.halted(), HaltReason: p.byHand,
		Armed: armed(p.cfg.Table.Armed(now)), Refused: append([]plan.Armed{}, p.refused...), Measures: p.liveMeasures(now),
	}
	if p.byFile {
		s.HaltReason = "halt file"
	}
	return s
}

// Measures lists the protective measures in force. They outlive control by
// their own lease, so that losing it does not take protection away at once.
func (p *Poller) Measures() []plan.Measure {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.liveMeasures(time.Now())
}

func (p *Poller) halted() bool { return p.byFile || p.byHand != "" }

func (p *Poller) liveMeasures(now time.Time) []plan.Measure {
	live := []plan.Measure{}
	for _, m := range p.measures {
		if now.Before(m.Until) {
			live = append(live, m.Measure)
		}
	}
	return live
}

func armed(states []fault.State) []plan.Armed {
	out := make([]plan.Armed, 0, len(states))
	for _, s := range states {
		out = append(out, plan.Armed{Run: s.Run, Fault: s.Fault, Hash: s.Hash, PPM: s.PPM, Reason: s.Reason, Note: s.Note})
	}
	return out
}
