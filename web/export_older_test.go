package web

import (
	"encoding/csv"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The older pages give their tables away as the newer ones do, with the numbers of the
// API: whole, in parts per million, no data empty and not 0.
func TestOlderPagesAsFiles(t *testing.T) {
	world := shop(noon)
	h := world.server(t).Handler()
	for path, want := range map[string]struct {
		columns string
		rows    int
	}{
		"/": {"service,objective,env,state,", 9}, "/?state=warn&view=table": {"service,objective,", 2}, "/services/order?table=failures": {"at,request_id,route,", 12},
		"/services/order?table=burn_rates": {"window_seconds,rate_milli,", 7}, "/services/points?table=runs": {"id,scenario,title,", 2}, "/runs": {"id,scenario,title,", 4}, "/runs?state=failed": {"id,", 1},
		"/runs/r-1287": {"phase,id,text,expected,seen,n,result", 4}, "/runs/r-1287?table=cohorts": {"phase,cohort,good,bad,degraded", 3}, "/runs/r-1287?table=receipts": {"gateway,fault,", 2},
		"/runs/r-1287?table=log": {"at,kind,text,actor", 5},
	} {
		mark := map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")]
		status, head, body := get(t, h, path+mark+"format=csv")
		lines, err := csv.NewReader(strings.NewReader(body)).ReadAll()
		if err != nil || status != 200 || head.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.HasPrefix(body, want.columns) || len(lines) != want.rows+1 {
			t.Errorf("%s: %d, %d lines, %v, %.80s", path, status, len(lines), err, body)
		}
		var rows []map[string]any
		if _, _, body := get(t, h, path+mark+"format=json"); json.Unmarshal([]byte(body), &rows) != nil || len(rows) != want.rows {
			t.Errorf("%s as JSON: %d rows", path, len(rows))
		}
		page := strings.ReplaceAll(strings.Split(path, "?")[0], "&", "&amp;")
		if _, _, body := get(t, h, page); !strings.Contains(body, "format=csv") {
			t.Errorf("%s does not link its files", page)
		}
	}
	var rows []map[string]any
	if _, _, body := get(t, h, "/?format=json"); json.Unmarshal([]byte(body), &rows) != nil {
		t.Fatal("no JSON")
	}
	for _, st := range world.statuses {
		i := slices.IndexFunc(rows, func(r map[string]any) bool { return r["objective"] == st.Objective.ID })
		if i < 0 {
			t.Fatalf("%s is not in the file", st.Objective.ID)
		}
		if left := rows[i]["remaining_ppm"]; st.Budget.NoData != (left == nil) || left != nil && left != float64(st.Budget.RemainingPPM) {
			t.Errorf("%s: %v, want %d", st.Objective.ID, left, st.Budget.RemainingPPM)
		}
	}
	if status, _, _ := get(t, h, "/runs?format=xml"); status != 400 {
		t.Errorf("format=xml: %d", status)
	}
	if status, _, _ := get(t, h, "/?format=csv&table=nothing"); status != 404 {
		t.Errorf("an unknown table: %d", status)
	}
}
