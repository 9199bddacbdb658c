package config

import (
	"breakwater/gateway/policy/shed"
	"breakwater/internal/conf"
)

// parseTier reads how much the requests of a route matter under pressure.
func parseTier(n conf.Node) shed.Tier {
	t := shed.Tier(n.Enum(string(shed.Default), string(shed.Critical), string(shed.Default), string(shed.Sheddable)))
	if t == shed.Default {
		return "" // so that written and unwritten make the same configuration
	}
	return t
}

// parseTiers reads what part of a service's places each tier may fill. Where
// critical requests can wait for a place, none need be kept free for them.
func parseTiers(n conf.Node, queue bool) shed.Config {
	c := shed.Config{DefaultPPM: 900_000, SheddablePPM: 750_000}
	if queue {
		c = shed.Config{DefaultPPM: 1_000_000, SheddablePPM: 800_000}
	}
	m := n.Map()
	standard, least := m.Get("default"), m.Get("sheddable")
	c.DefaultPPM = standard.PPM(c.DefaultPPM)
	c.SheddablePPM = least.PPM(min(c.SheddablePPM, c.DefaultPPM))
	if c.DefaultPPM == 0 {
		standard.Errorf("must be more than 0%%, got %s", standard.Got()).Hint("a tier without any place would never be served")
	}
	switch {
	case c.SheddablePPM == 0 && least.Present():
		least.Errorf("must be more than 0%%, got %s", least.Got()).Hint("a tier without any place would never be served")
	case c.SheddablePPM > c.DefaultPPM:
		least.Errorf("must be at most default, got %s", least.Got()).Hint("the lower tier is to go first")
	}
	m.Done()
	return c
}
