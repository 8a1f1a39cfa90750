package system

import (
	"slices"

	"github.com/lash-go/lash/integration/internal/harness"
)

// missing lists the documented statuses that no response had.
func missing(d *harness.Document) []string {
	var list []string
	for _, methods := range d.Paths {
		for _, op := range methods {
			for status := range op.Responses {
				if name := op.ID + " " + status; status != "default" && status != "507" && !d.Produced[name] { // a full disk has its own test
					list = append(list, name)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}
