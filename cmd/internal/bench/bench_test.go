package bench

import "testing"

func TestBenchRuns(t *testing.T) {
	t.Parallel()
	var parts []string
	r, err := Run(t.Context(), Options{
		Scale: 1000, Dir: t.TempDir(), Only: "fold",
		Progress: func(_ string, a ...any) { parts = append(parts, a[0].(string)) },
	})
	if err != nil || r.FoldPerSecond <= 0 || len(parts) != 1 {
		t.Errorf("got %+v, %v after %v, want the fold's figure alone", r, err, parts)
	}
}
