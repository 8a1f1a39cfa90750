package program

import "fmt"

// Number is a count with its noun, in the plural unless it is 1.
func Number(n int64, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
