package demo

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
	"time"
)

//go:embed documents/*.tmpl
var documents embed.FS

// DocumentConfig is what the documents depend on.
type DocumentConfig struct {
	Gateway   string // name of the gateway; "": demo
	Env       string
	Endpoints func(service string) []Endpoint
	Now       time.Time // the weekly drill is due soon after it
}

// firstDrill is how long after the start the first drill may begin at the
// earliest: traffic must have flowed for a while, or there is no steady state.
const firstDrill = 25 * time.Second

// FirstDrill is when the weekly drill of a demo started at now is due: a whole
// minute, 25 to 85 seconds later.
func FirstDrill(now time.Time) time.Time {
	return now.UTC().Add(firstDrill + time.Minute - 1).Truncate(time.Minute)
}

// Documents renders the files of the demo, by name: gateway.yaml for the gateway,
// slo.yaml and drills.yaml for control.
func Documents(cfg DocumentConfig) (map[string][]byte, error) {
	type service struct {
		Name, Owner, Title, Target string
		Tier                       int
		Core                       bool
		Endpoints                  []Endpoint
	}
	first := FirstDrill(cfg.Now)
	hourly := first.Add(10 * time.Minute)
	data := struct {
		Gateway, Env           string
		Services               []service
		Routes                 []Operation
		WeeklyCron, HourlyCron string
	}{
		Gateway: cfg.Gateway, Env: cfg.Env, Routes: Operations(),
		WeeklyCron: fmt.Sprintf("%d %d * * %d", first.Minute(), first.Hour(), first.Weekday()),
		HourlyCron: fmt.Sprintf("%d * * * *", hourly.Minute()),
	}
	if data.Gateway == "" {
		data.Gateway = "demo"
	}
	for _, s := range []service{
		{Name: Order, Owner: "team-checkout", Title: "Orders are taken", Tier: 1, Core: true},
		{Name: Points, Owner: "team-points", Title: "Points are credited and read", Tier: 2},
		{Name: Inventory, Owner: "team-warehouse", Title: "Stock is known and reserved", Tier: 1, Core: true},
		{Name: Coupon, Owner: "team-marketing", Title: "Coupons are redeemed", Tier: 3},
	} {
		s.Target = decimal(PastOf(s.Name).TargetPPB)
		s.Endpoints = cfg.Endpoints(s.Name)
		data.Services = append(data.Services, s)
	}
	t, err := template.ParseFS(documents, "documents/*.tmpl")
	if err != nil {
		return nil, fmt.Errorf("read the demo's templates: %w", err)
	}
	out := make(map[string][]byte)
	for _, part := range t.Templates() {
		var b bytes.Buffer
		if err := part.Execute(&b, data); err != nil {
			return nil, fmt.Errorf("render %s: %w", part.Name(), err)
		}
		out[strings.TrimSuffix(part.Name(), ".tmpl")] = b.Bytes()
	}
	return out, nil
}

// decimal writes parts per 10^9 as a fraction, exactly.
func decimal(ppb int64) string {
	return "0." + strings.TrimRight(fmt.Sprintf("%09d", ppb), "0")
}

// Write renders the documents into dir. Each file is replaced in one step, since
// a gateway may be watching.
func Write(dir string, cfg DocumentConfig) error {
	docs, err := Documents(cfg)
	if err != nil {
		return err
	}
	for name, text := range docs {
		tmp := filepath.Join(dir, "."+name+".new")
		if err := os.WriteFile(tmp, text, 0o600); err != nil {
			return fmt.Errorf("write the demo's documents: %w", err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("write the demo's documents: %w", err)
		}
	}
	return nil
}
