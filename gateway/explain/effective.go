package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
)

// maxEffective bounds a configuration as gateways report it.
const maxEffective = 16 << 20

// FromEffective makes an engine of a configuration as a gateway reports it: its
// effective values as JSON. whole is false where they were written by another
// version, which may know fields that this one leaves out.
func FromEffective(text []byte) (e *Engine, whole bool, err error) {
	if len(text) > maxEffective {
		return nil, false, fmt.Errorf("read a configuration: must be at most %d bytes, got %d", maxEffective, len(text))
	}
	var cfg config.Config
	if err := json.Unmarshal(text, &cfg); err != nil {
		return nil, false, fmt.Errorf("read a configuration: %w", err)
	}
	if cfg.Revision == "" {
		return nil, false, errors.New("read a configuration: it has no revision")
	}
	again, err := json.Marshal(cfg)
	if err != nil {
		return nil, false, fmt.Errorf("read a configuration: %w", err)
	}
	if e, err = New(&cfg); err != nil {
		return nil, false, err
	}
	return e, bytes.Equal(again, text), nil
}

// FromFiles makes an engine of documents as a gateway would read them; nil where
// it would not load them, and the report says at which places.
func FromFiles(files []conf.File) (*Engine, Report) {
	report := Validate(files)
	var log conf.Log
	cfg := config.Parse(files, &log)
	if !config.Loadable(&log) {
		return nil, report
	}
	if len(cfg.Routes) == 0 {
		if report.OK {
			report.Findings = append(report.Findings, log.Add(nameOf(files), 1, 1, "must hold a Route document, got none").Coded("E-MISSING"))
			report.OK, report.Errors = false, report.Errors+1
		}
		return nil, report
	}
	e, err := New(cfg)
	if err != nil { // a route that chi's tree does not take: told by Parse as well
		report.OK = false
		return nil, report
	}
	return e, report
}

func nameOf(files []conf.File) string {
	if len(files) == 0 {
		return "documents"
	}
	return files[0].Name
}

// Revision is that of the configuration.
func (e *Engine) Revision() string { return e.cfg.Revision }

// RouteOf is a route of a configuration.
type RouteOf struct{ Name, Service, Upstream, Path string }

// Routes are the routes in the order in which they stand.
func (e *Engine) Routes() []RouteOf {
	out := make([]RouteOf, len(e.cfg.Routes))
	for i, r := range e.cfg.Routes {
		out[i] = RouteOf{r.Name, r.Service, r.Upstream, r.Match.Path}
	}
	return out
}
