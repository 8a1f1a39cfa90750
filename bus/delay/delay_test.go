package delay_test

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/bus/delay"
)

// TestBackoff compares waits with base times a power of two, computed without a limit of size.
func TestBackoff(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := rapid.Int64().Draw(t, "base")
		limit := rapid.OneOf(rapid.Int64(), rapid.Just(int64(math.MaxInt64))).Draw(t, "limit")
		n := rapid.IntRange(1, 200).Draw(t, "n")
		exact := new(big.Int).Lsh(big.NewInt(max(base, 0)), uint(n-1))
		want := time.Duration(max(limit, 0))
		if exact.Cmp(big.NewInt(int64(want))) < 0 {
			want = time.Duration(exact.Int64())
		}
		if got := delay.Backoff(time.Duration(base), time.Duration(limit), n); got != want {
			t.Errorf("base %d, limit %d, try %d: got %d, want %d", base, limit, n, got, want)
		}
	})
}
