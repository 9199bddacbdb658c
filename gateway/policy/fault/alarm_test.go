package fault

import (
	"sync"
	"testing"
	"time"
)

// An alarm never rings early, rings for everybody, and forgets who stopped.
func TestAlarm(t *testing.T) {
	a, err := NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			d := time.Duration(200-i) * 100 * time.Microsecond
			began := time.Now()
			over, stop := a.After(d)
			defer stop()
			if i%5 == 0 {
				stop()
				return
			}
			<-over
			if took := time.Since(began); took < d {
				t.Errorf("rang after %v, before %v", took, d)
			}
		})
	}
	group.Wait()
	over, stop := a.After(time.Hour)
	defer stop()
	at, _ := a.After(0)
	<-at
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	<-over // whoever sleeps is woken
	late, _ := a.After(time.Hour)
	<-late
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
