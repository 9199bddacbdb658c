package store

import (
	"testing"

	"breakwater/internal/pgtest"
)

// What every connection is told, which costs seconds where it is forgotten.
func TestSessionsPlanForWhatIsAsked(t *testing.T) {
	db, err := Open(t.Context(), pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, want := range map[string]string{"jit": "off", "max_parallel_workers_per_gather": "0", "work_mem": "16MB", "plan_cache_mode": "force_custom_plan"} {
		var got string
		if err := db.QueryRow(t.Context(), `select current_setting($1)`, name).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %s, %v; want %s", name, got, err, want)
		}
	}
}
