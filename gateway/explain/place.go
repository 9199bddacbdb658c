package explain

import (
	"strings"

	"breakwater/gateway/config"
	"breakwater/gateway/policy/mirror"
	"breakwater/gateway/route"
)

// routeFacts are what routing asks beside the request.
func (s *Sample) routeFacts(cfg *config.Config) route.Facts {
	return route.Facts{Caller: s.Headers.Get(cfg.Gateway.CallerHeader), Now: s.now()}
}

// place says where requests like s go by route r, and to how many endpoints.
func (a *Answer) place(cfg *config.Config, r config.Route, s Sample) (endpoints int, err error) {
	ups, weights, err := cfg.Branches(r)
	if err != nil {
		return 0, err
	}
	heaviest := weights.Heaviest()
	at := heaviest
	if caller := s.Headers.Get(cfg.Gateway.CallerHeader); r.Sticky && caller != "" {
		at = weights.Pick(route.Hash(r.Name, caller))
	} else if s.RequestID != "" {
		at = weights.Pick(route.Hash(r.Name, s.RequestID))
	}
	a.Upstream, endpoints = ups[at].Name, len(ups[at].Endpoints)
	if r.EscapeSplit && at != heaviest { // every further try goes to the heaviest branch
		endpoints = 1 + len(ups[heaviest].Endpoints)
	}
	if len(r.Split) > 0 {
		for i, up := range ups {
			a.Split = append(a.Split, Share{up.Name, weights.Share(i)})
		}
	}
	if m := r.Mirror; m != nil {
		a.Mirror = &Mirror{Upstream: m.Upstream, PPM: m.PPM}
		switch {
		case strings.EqualFold(s.Headers.Get("Upgrade"), "websocket"):
			a.Mirror.PPM, a.Mirror.Skip = 0, string(mirror.Upgrade)
		case s.BodyBytes > m.MaxBody:
			a.Mirror.PPM, a.Mirror.Skip = 0, string(mirror.TooBig)
		}
	}
	return endpoints, nil
}
