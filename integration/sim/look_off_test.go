//go:build nolook

package sim

const looks = false
