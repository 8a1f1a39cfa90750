package security

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
)

// neighbours are subjects that differ from a row of a list in one token: another one, a longer one, a wildcard, one less, one more.
func neighbours(row string) (list []string) {
	tokens := strings.Split(row, ".")
	with := func(at, drop int, insert ...string) {
		list = append(list, strings.Join(slices.Concat(tokens[:at], insert, tokens[at+drop:]), "."))
	}
	for i, token := range tokens {
		with(i, 1)
		with(i, 0, "x")
		for _, other := range []string{"*", "other", strings.ToUpper(token), token + "x", "x" + token, token[:len(token)-1]} {
			with(i, 1, other)
		}
		list = append(list, strings.Join(append(slices.Clone(tokens[:i]), ">"), "."))
	}
	return append(list, row+".x")
}

// refusedBy are those of the subjects that are valid, and that no row of a list allows. The server takes a last > for a token: where a row
// ends with *, it also allows a subscription to longer subjects. The account of a plugin has none.
func refusedBy(rows, subjects []string) (list []string) {
	for _, subject := range subjects {
		allowed := slices.ContainsFunc(rows, func(row string) bool {
			return server.SubjectMatchesFilter(subject, row) || strings.HasSuffix(row, "*") && server.SubjectMatchesFilter(strings.Replace(subject, ">", "token", 1), row)
		})
		if !allowed && server.IsValidSubject(subject) && !slices.Contains(list, subject) {
			list = append(list, subject)
		}
	}
	return list
}

// TestPluginListIsNoWider makes subjects that are beside each row of the list of a plugin's user, which [TestPluginPermissions] compares with the files, and tries in each direction
// what no row allows, and the rows of the other direction: the server refuses all of them.
func TestPluginListIsNoWider(t *testing.T) {
	t.Parallel()
	d := installPlugins(t).boot()
	probe := d.probe("plugin-weather@acme")
	publish, subscribe := pluginRows()
	all := slices.Concat(publish, subscribe, []string{">", "*", "*.*", "*.*.*", "*.*.*.*", "_INBOX.>", "$SYS.>", "$JS.API.>", "$KV.>", "$SRV.>"})
	for _, row := range slices.Concat(publish, subscribe) {
		all = append(all, neighbours(row)...)
	}
	subscribed := refusedBy(subscribe, all)
	for _, subject := range subscribed {
		probe.subscribe(subject, false)
	}
	literals := make([]string, 0, len(all))
	for _, subject := range all {
		literals = append(literals, literal(subject))
	}
	published := refusedBy(publish, literals)
	for _, subject := range published {
		probe.publish(subject, false)
	}
	if probe.check(); len(subscribed) < 100 || len(published) < 100 {
		t.Errorf("tried %d subscriptions and %d publications, want more", len(subscribed), len(published))
	}
}
