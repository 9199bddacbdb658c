package gateway_test

import (
	"reflect"
	"strings"

	"breakwater/internal/retrylog"
)

// copied is ev with memory of its own: its strings are valid only as long as its
// exchange, and a Recorder takes them by copy.
func copied(ev retrylog.Exchange) retrylog.Exchange {
	own := func(v reflect.Value) {
		for _, f := range v.Fields() {
			if f.Kind() == reflect.String {
				f.SetString(strings.Clone(f.String()))
			}
		}
	}
	own(reflect.ValueOf(&ev).Elem())
	ev.Tries = append([]retrylog.Try(nil), ev.Tries...)
	for i := range ev.Tries {
		own(reflect.ValueOf(&ev.Tries[i]).Elem())
	}
	return ev
}
