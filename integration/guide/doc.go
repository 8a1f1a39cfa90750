// Package guide runs the README and the operator's guide: its tests do what they say, block by block, in order.
package guide
