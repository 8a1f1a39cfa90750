package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

// TestReportLeavesOut prints one report for each figure, with that figure alone. The table has only its row, and the
// JSON only its field.
func TestReportLeavesOut(t *testing.T) {
	t.Parallel()
	rows := make(map[string]bool)
	of := reflect.TypeFor[Report]()
	for i := range of.NumField() {
		if of.Field(i).Type.Kind() != reflect.Float64 {
			continue
		}
		r := &Report{}
		reflect.ValueOf(r).Elem().Field(i).SetFloat(7)
		var out bytes.Buffer
		r.print(&out)
		if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, " 7.00 ") || rows[text] {
			t.Errorf("%s: got %q, want its row alone", of.Field(i).Name, text)
		}
		rows[out.String()] = true
		data, err := json.Marshal(r)
		if got := strings.Count(string(data), ":"); err != nil || got != 3 { // the figure, raw and lash
			t.Errorf("%s: got %s, %v, want its field alone", of.Field(i).Name, data, err)
		}
	}
}
