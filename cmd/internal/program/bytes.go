package program

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a flag with a number of bytes, at least 64 MiB: 1073741824, 1024MiB or 1GiB.
type Bytes int64

// leastBytes is the smallest value of a flag with a number of bytes.
const leastBytes = 64 << 20

// UnmarshalText implements [encoding.TextUnmarshaler].
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := string(text), int64(1)
	for name, size := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40} {
		if short, ok := strings.CutSuffix(number, name); ok {
			number, unit = short, size
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n > math.MaxInt64/unit || n*unit < leastBytes {
		return fmt.Errorf("is %q, want a number of bytes from 64MiB on, as 512MiB or 2GiB", text)
	}
	*b = Bytes(n * unit)
	return nil
}
