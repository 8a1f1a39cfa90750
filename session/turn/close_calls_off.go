//go:build unclosed

package turn

const closesCalls = false
