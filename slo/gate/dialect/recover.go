package dialect

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

const (
	// recoverEvery is how often GitHub is asked for what it could not deliver.
	recoverEvery = 10 * time.Minute
	// redeliverable is how long GitHub keeps a delivery, and a little less.
	redeliverable = 70 * time.Hour
	// maxDeliveries is how often one message is delivered at most.
	maxDeliveries = 5
)

// final are refusals of ours that the same message would meet again. Another 4xx
// may be a proxy's, or a secret that has been put right since.
var final = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity}

// delivery is one attempt of GitHub to tell us something.
type delivery struct {
	ID          int64     `json:"id"`
	GUID        string    `json:"guid"`
	DeliveredAt time.Time `json:"delivered_at"`
	StatusCode  int       `json:"status_code"`
	Event       string    `json:"event"`
}

// Recover has GitHub deliver again what failed while nobody was here: it does not
// do so by itself, and a run of which we never heard would wait for ever.
func (g *GitHub) Recover(ctx context.Context, now time.Time) error {
	var list []delivery
	if err := g.cfg.App.asApp(ctx, now, http.MethodGet, "/app/hook/deliveries?per_page=100", nil, &list); err != nil {
		return fmt.Errorf("list deliveries: %w", err)
	}
	for _, id := range again(list, now) {
		if err := g.cfg.App.asApp(ctx, now, http.MethodPost, "/app/hook/deliveries/"+strconv.FormatInt(id, 10)+"/attempts", nil, nil); err != nil {
			return fmt.Errorf("deliver %d again: %w", id, err)
		}
		g.cfg.Log.Info("GitHub delivers again what failed", "delivery", id)
	}
	return nil
}

// again picks the newest attempt of each message that never arrived.
func again(list []delivery, now time.Time) []int64 {
	var out []int64
	newest := map[string]delivery{}
	tries, arrived := map[string]int{}, map[string]bool{}
	for _, d := range list {
		tries[d.GUID]++
		arrived[d.GUID] = arrived[d.GUID] || d.StatusCode >= 200 && d.StatusCode < 300 || slices.Contains(final, d.StatusCode)
		if d.DeliveredAt.After(newest[d.GUID].DeliveredAt) {
			newest[d.GUID] = d
		}
	}
	for guid, d := range newest {
		if !arrived[guid] && tries[guid] < maxDeliveries && now.Sub(d.DeliveredAt) < redeliverable &&
			slices.Contains([]string{"deployment_protection_rule", "check_suite", "check_run", "deployment_status"}, d.Event) {
			out = append(out, d.ID)
		}
	}
	slices.Sort(out)
	return out
}
