package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

	"breakwater/slo/gate"
)

// gateMemory is what a pipeline goes by while control is away.
type gateMemory struct {
	dir, key string
	off      bool
}

func (g *gateMemory) flags(f *pflag.FlagSet) {
	f.StringVar(&g.dir, "memory", env("GATE_MEMORY", defaultGateMemory()), "directory that keeps the last signed answers; empty: none are kept (BREAKWATER_GATE_MEMORY)")
	f.StringVar(&g.key, "gate-key", env("GATE_KEY", ""), "public key that answers must be signed with; empty: the one control shows first (BREAKWATER_GATE_KEY)")
	f.BoolVar(&g.off, "no-fallback", false, "never go by an earlier answer")
}

func defaultGateMemory() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "breakwater", "gate")
}

// of is the memory of one control: another one's answers are nobody's business.
func (g *gateMemory) of(base string) gate.Memory {
	sum := sha256.Sum256([]byte(base))
	return gate.Memory{Dir: filepath.Join(g.dir, hex.EncodeToString(sum[:6])), Key: g.key}
}

// use keeps a fresh answer, or looks for one that may stand in for control.
func (g *gateMemory) use(ctx context.Context, io streams, set *settings, r gate.Request, d gate.Decision, asked error) (gate.Decision, error) {
	if g.dir == "" {
		return d, asked
	}
	m := g.of(set.baseURL())
	if asked == nil {
		if d.Signature == nil {
			return d, nil
		}
		err := m.Learn(ctx, set.baseURL(), set.token)
		if err == nil {
			err = m.Keep(d)
		}
		if err != nil {
			fmt.Fprintf(io.err, "breakwater: this answer cannot stand in later: %v (%s)\n", err, m.Dir)
		}
		return d, nil
	}
	if refused, ok := errors.AsType[*gate.Refused](asked); g.off || ok && refused.Status < http.StatusInternalServerError {
		return d, asked // control is there, and does not answer us
	}
	last, err := m.Last(r, time.Now())
	if err != nil {
		return d, asked
	}
	fmt.Fprintf(io.err, "breakwater: %v; its last signed answer stands in\n", asked)
	return last, nil
}
