package search

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lash-go/lash/internal/runtest"
)

// TestInOrder: work runs concurrently, its results are in order, and an error or the end of the context ends it.
func TestInOrder(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tc := range map[string]struct {
		n, fails, stops int // indexes; below 0 none
		err             error
	}{
		"none": {0, -1, -1, nil}, "few": {3, -1, -1, nil}, "many": {300, -1, -1, nil}, "work_fails": {300, 70, -1, broken}, "done_fails": {300, -1, 100, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var got []int
				began := time.Now()
				err := InOrder(t.Context(), tc.n, func(ctx context.Context, i int) (int, error) {
					time.Sleep(time.Duration(i%7) * time.Second) //nolint:forbidigo // in a bubble; later ones end first
					if i == tc.fails {
						return 0, broken
					}
					return i, ctx.Err()
				}, func(i int, err error) error {
					if err == nil && i == tc.stops {
						err = broken
					}
					if err == nil {
						got = append(got, i)
					}
					return err
				})
				want := tc.n
				if tc.err != nil {
					want = max(tc.fails, tc.stops)
				}
				if !errors.Is(err, tc.err) || len(got) != want || !slices.IsSorted(got) {
					t.Errorf("got %d results in order %v, %v, want %d, %v", len(got), slices.IsSorted(got), err, want, tc.err)
				}
				if alone := time.Duration(tc.n) * 3 * time.Second; tc.n > 10 && time.Since(began) > alone*3/4 {
					t.Errorf("got %s, one after the other takes %s", time.Since(began), alone)
				}
			})
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	err := InOrder(ctx, 10, func(_ context.Context, i int) (int, error) {
		if i == 2 {
			cancel(broken)
		}
		return i, nil
	}, func(int, error) error { return nil })
	runtest.WantError(t, "cancelled", err, broken)
}
