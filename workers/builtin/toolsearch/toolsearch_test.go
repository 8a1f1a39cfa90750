package toolsearch_test

import (
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/builtin/toolsearch"
)

// TestRank finds names before namespaces before descriptions, and nothing that is off or does not match.
func TestRank(t *testing.T) {
	t.Parallel()
	tools := []events.ToolEntry{
		{Name: "a_text", Description: "Sends Mail."},
		{Name: "b_space", Namespace: "mail"},
		{Name: "c_alias", Aliases: []string{"Mail"}},
		{Name: "mail"},
		{Name: "mail_off", Availability: events.AvailOff},
		{Name: "mail_orphan", Orphan: true},
		{Name: "mailbox", Availability: events.AvailSearchable},
		{Name: "other", Description: "Prints."},
	}
	for _, c := range []struct {
		query string
		limit int
		want  string
	}{
		{"mail", 9, "c_alias mail mailbox b_space a_text"},
		{"mail", 2, "c_alias mail"},
		{"mail sends", 3, "c_alias mail mailbox"},
		{"sends", 9, "a_text"},
		{"nothing", 9, ""},
	} {
		var got []string
		for _, found := range toolsearch.Rank(tools, strings.Fields(c.query), c.limit) {
			got = append(got, found.Name)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: got %q, want %q", c.query, got, c.want)
		}
	}
}
