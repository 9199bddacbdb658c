package demo

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Outage is a service that breaks by itself, and heals.
type Outage struct {
	Service string
	Mode    Mode
	After   time.Duration // from the start
	For     time.Duration
}

// Script is the demo's one outage: points answers 500 for long enough to spend
// the little budget that its history has left.
func Script() Outage {
	return Outage{Service: Points, Mode: Failing, After: 90 * time.Second, For: 80 * time.Second}
}

// Run breaks the service, heals it and returns; it heals too when ctx ends first.
func (o Outage) Run(ctx context.Context, shop *Shop, log *slog.Logger) error {
	if !wait(ctx, o.After) {
		return nil
	}
	if err := shop.Break(o.Service, o.Mode); err != nil {
		return fmt.Errorf("outage: %w", err)
	}
	log.Info("scripted outage begins", "service", o.Service, "mode", string(o.Mode), "seconds", o.For.Seconds())
	wait(ctx, o.For)
	if err := shop.Break(o.Service, Fine); err != nil {
		return fmt.Errorf("outage: %w", err)
	}
	log.Info("scripted outage is over", "service", o.Service)
	return nil
}

func wait(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
