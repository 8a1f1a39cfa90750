package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/cmd/lash-node/bench"
)

// TestBenchLeavesOut prints reports in which one figure was measured, for each
// figure: its row alone is there, and its field alone in JSON.
func TestBenchLeavesOut(t *testing.T) {
	t.Parallel()
	rows := make(map[string]bool)
	of := reflect.TypeFor[bench.Report]()
	for i := range of.NumField() {
		if of.Field(i).Type.Kind() != reflect.Float64 {
			continue
		}
		r := &bench.Report{}
		reflect.ValueOf(r).Elem().Field(i).SetFloat(7)
		var out bytes.Buffer
		benchTable(&streams{Out: &out}, r)
		if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, " 7.00 ") || rows[text] {
			t.Errorf("%s: got %q, want its row alone", of.Field(i).Name, text)
		}
		rows[out.String()] = true
		data, err := json.Marshal(r)
		if got := strings.Count(string(data), ":"); err != nil || got != 3 { // with those of raw and lash
			t.Errorf("%s: got %s, %v, want its field alone", of.Field(i).Name, data, err)
		}
	}
}
