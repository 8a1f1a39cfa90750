package security

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
)

// roles are the users of the sample tenant, one of each role.
func roles() []string { return []string{"node", "host", "auditor", "backup", "reader"} }

// mayPublish says for every row of every role's list which roles may do what it allows. Rows that begin with - are
// denied to those that have them.
func mayPublish() map[string]string {
	return map[string]string{
		"lash.s.*.*": "node", "lash.work.>": "node", "lash.timer.at.*": "node", "lash.dead.>": "node", "lash.tries.>": "node",
		"lash.dirty.*": "node", "lash.delta.*.*": "node", "lash.archive.*": "node", "lash.erased.*": "node", "lash.alive": "node", "_INBOX.*.>": "node", "_R_.>": "node reader",
		"lash.ask.*": "node", "lash.notify.*": "node", "lash.way.*": "node", "lash.api.>": "node", "lash.api.*": "node host",
		"$SRV.PING": "node", "$SRV.PING.>": "node", "$SRV.INFO": "node", "$SRV.INFO.>": "node", "$SRV.STATS": "node", "$SRV.STATS.>": "node",
		"$KV.lash-sessions.*": "node", "$KV.lash-catalog.*": "node", "$KV.lash-snapshots.*": "node", "$KV.lash-index.*": "node", "$KV.lash-plugins.*": "node", "lash.plugin.*.*.*": "node", "lash.plugin-event.*": "node", "$O.lash-blobs.>": "node",

		"$JS.API.INFO": "node backup", "$JS.API.STREAM.NAMES": "node host auditor backup reader",
		"$JS.API.STREAM.LIST": "node backup", "$JS.API.STREAM.INFO.*": "node host auditor backup reader",
		"$JS.API.STREAM.CREATE.*": "node", "$JS.API.STREAM.UPDATE.*": "node", "$JS.API.STREAM.DELETE.*": "node",
		"$JS.API.STREAM.PURGE.OBJ_lash-blobs": "node", "$JS.API.STREAM.PURGE.lash-timers": "node", "$JS.API.STREAM.PURGE.lash-dead": "node",
		"$JS.API.STREAM.PURGE.lash-work": "node", "$JS.API.STREAM.PURGE.lash-dirty": "node", "$JS.API.STREAM.PURGE.lash-delta": "node",
		"$JS.API.STREAM.PURGE.KV_lash-snapshots": "node", "$JS.API.STREAM.PURGE.KV_lash-catalog": "node", "$JS.API.STREAM.PURGE.KV_lash-index": "node", "$JS.API.STREAM.PURGE.KV_lash-sessions": "node",
		"$JS.API.STREAM.MSG.GET.*": "node", "$JS.API.STREAM.MSG.GET.lash-archive": "node host auditor reader",
		"$JS.API.DIRECT.GET.>":      "node host auditor reader",
		"$JS.API.CONSUMER.CREATE.>": "node", "$JS.API.CONSUMER.INFO.*.*": "node",
		"$JS.API.CONSUMER.DELETE.*.*": "node", "$JS.API.CONSUMER.MSG.NEXT.*.*": "node",
		"$JS.ACK.>": "node", "$JS.FC.>": "node",
		"$JS.API.STREAM.SNAPSHOT.*": "backup", "$JS.API.STREAM.RESTORE.*": "backup",
		"$JS.SNAPSHOT.ACK.>": "backup", "$JS.SNAPSHOT.RESTORE.>": "backup",

		// The remainder of the rows above without the denied rows.
		"$JS.API.DIRECT.GET.lash-delta": "node host", "$JS.API.STREAM.INFO.lash-work": "node backup reader",

		"-$JS.API.STREAM.DELETE.lash-work":              "node",
		"-$JS.API.STREAM.DELETE.lash-timers":            "node",
		"-$JS.API.STREAM.DELETE.lash-dead":              "node",
		"-$JS.API.STREAM.DELETE.lash-dirty":             "node",
		"-$JS.API.STREAM.DELETE.lash-delta":             "node",
		"-$JS.API.STREAM.DELETE.lash-plugin-events":     "node",
		"-$JS.API.STREAM.DELETE.lash-archive":           "node",
		"-$JS.API.STREAM.DELETE.KV_lash-sessions":       "node",
		"-$JS.API.STREAM.DELETE.KV_lash-catalog":        "node",
		"-$JS.API.STREAM.DELETE.KV_lash-snapshots":      "node",
		"-$JS.API.STREAM.DELETE.KV_lash-index":          "node",
		"-$JS.API.STREAM.DELETE.KV_lash-plugins":        "node",
		"-$JS.API.STREAM.DELETE.OBJ_lash-blobs":         "node",
		"-$JS.API.CONSUMER.DELETE.lash-work.*":          "node",
		"-$JS.API.CONSUMER.DELETE.lash-timers.*":        "node",
		"-$JS.API.CONSUMER.DELETE.lash-dead.*":          "node",
		"-$JS.API.CONSUMER.DELETE.lash-dirty.*":         "node",
		"-$JS.API.CONSUMER.DELETE.lash-plugin-events.*": "node",
		"-$JS.API.DIRECT.GET.lash-delta":                "auditor reader",
		"-$JS.API.DIRECT.GET.lash-delta.>":              "auditor reader",
		"-$JS.API.STREAM.INFO.lash-work":                "host auditor",
	}
}

func maySubscribe() map[string]string {
	return map[string]string{
		"_INBOX.node.>": "node", "_INBOX.host.>": "host", "_INBOX.auditor.>": "auditor", "_INBOX.backup.>": "backup", "_INBOX.reader.>": "reader",
		"lash.api.>": "node", "lash.ask.*": "node", "lash.notify.*": "node", "lash.way.*": "node", "lash.alive": "node", "$SRV.>": "node",
		"lash.plugins.*.*": "node", "lash.plugin-live.*.*": "node",
		"lash.live.*.>": "node host", "lash.delta.*.*": "node host", "lash.read.>": "node", "lash.audit.>": "reader",
	}
}

// beyond lists subjects that are in no list of permissions: every user is refused.
func beyond() (publish, subscribe []string) {
	publish = []string{
		"$JS.API.STREAM.PURGE.lash-s-x", "$JS.API.STREAM.PURGE.lash-archive", "$JS.API.STREAM.MSG.DELETE.lash-s-x",
		"$JS.API.CONSUMER.PAUSE.lash-work.turn", "$JS.API.STREAM.LEADER.STEPDOWN.lash-work", "$JS.API.STREAM.PEER.REMOVE.lash-work",
		"$JS.API.CONSUMER.DURABLE.CREATE.lash-work.mine", "$JS.API.META.LEADER.STEPDOWN", "$SYS.REQ.SERVER.PING",
		"$SYS.REQ.ACCOUNT.globex.CONNZ", "_INBOX.x", "lash.live.x.turn", "lash.timer.due.x.y", "other",
		"lash.read.STREAM.NAMES", "lash.audit.STREAM.NAMES", // what readers ask has other names in their accounts
		"lash.plugins.x.register", "lash.plugins.x.fire", "lash.plugin-live.x.y", "lash.plugin.x.y", // of plugins, which have accounts of their own
	}
	subscribe = []string{
		">", "*.>", "lash.>", "lash.*.>", "lash.s.*.*", "lash.work.>", "lash.archive.*", "lash.timer.due.*.*", "lash.dead.>", "lash.dirty.*",
		"$JS.API.>", "$JS.ACK.>", "$KV.>", "$O.>", "$SYS.>", "_INBOX.>", "_INBOX.alice.>", "*.*",
		"lash.plugin.*.*.*", "lash.plugin.x.y.call", "_INBOX.plugin-x.>",
	}
	return publish, subscribe
}

// TestSmokeEveryPermissionRow tries every row of every list from every role, on a server with these files: it accepts
// the roles that may, and refuses all others.
func TestSmokeEveryPermissionRow(t *testing.T) {
	t.Parallel()
	install(t).boot().everyPermissionRow()
}

// TestLongEveryPermissionRowOfThreeServers does so on each of the three servers of cluster/.
func TestLongEveryPermissionRowOfThreeServers(t *testing.T) {
	t.Parallel()
	d := install(t)
	_, all := d.cluster()
	for _, d.ns = range all {
		d.everyPermissionRow()
	}
}

func (d *deployment) everyPermissionRow() {
	t := d.t
	t.Helper()
	publish, subscribe := mayPublish(), maySubscribe()
	for _, role := range roles() {
		list := d.permissions(role)
		rowsKnown(t, role, "publish", list, publish)
		rowsKnown(t, role, "subscribe", list, subscribe)
		probe := d.probe(role + "@acme")
		for row, may := range publish {
			denied := strings.HasPrefix(row, "-")
			allowed := slices.Contains(strings.Fields(may), role)
			if denied && !allowed {
				continue // no row of this role's
			}
			probe.publish(literal(strings.TrimPrefix(row, "-")), allowed && !denied)
		}
		for row, may := range subscribe {
			probe.subscribe(row, slices.Contains(strings.Fields(may), role))
		}
		notPublished, notSubscribed := beyond()
		for _, subject := range notPublished {
			probe.publish(subject, false)
		}
		for _, subject := range notSubscribed {
			if maySubscribe()[subject] == "" || !slices.Contains(strings.Fields(subscribe[subject]), role) {
				probe.subscribe(subject, false)
			}
		}
		probe.check()
	}
}

// permissions are a user's lists in the files.
func (d *deployment) permissions(name string) map[string][]string {
	d.t.Helper()
	parsed, err := conf.ParseFile(filepath.Join(d.dir, "tenants", "acme", name+".conf"))
	runtest.NoError(d.t, err)
	list := make(map[string][]string)
	for _, direction := range []string{"publish", "subscribe"} {
		for rule, rows := range parsed[direction].(map[string]any) {
			sign := map[string]string{"allow": "", "deny": "-"}[rule]
			for _, row := range rows.([]any) {
				list[direction] = append(list[direction], sign+row.(string))
			}
		}
	}
	return list
}

// rowsKnown compares a role's list with the table: each of its rows is in it, and allows the role that.
func rowsKnown(t *testing.T, role, direction string, list map[string][]string, table map[string]string) {
	t.Helper()
	for _, row := range list[direction] {
		if !slices.Contains(strings.Fields(table[row]), role) {
			t.Errorf("%s may %s %s: the table knows nothing of it", role, direction, row)
		}
	}
	for row, may := range table {
		if strings.HasPrefix(row, "-") && slices.Contains(strings.Fields(may), role) && !slices.Contains(list[direction], row) {
			t.Errorf("%s has no row %s", role, row)
		}
		if !strings.HasPrefix(row, "-") && len(strings.Fields(may)) > len(roles()) {
			t.Errorf("%s: everybody may, so no role is the wrong one", row)
		}
	}
}

// literal is a subject that a row covers.
func literal(row string) string {
	return strings.NewReplacer("*", "x", ">", "x.y").Replace(row)
}

// probe is a user's connection that tries things.
type probe struct {
	t       *testing.T
	user    string
	nc      *nats.Conn
	refused *bustest.Refusals
	done    chan struct{}
	tried   map[string]bool // may it
}

// lastProbe is a subject without a permission; its refusal arrives after all others.
const lastProbe = "last.of.all"

func (d *deployment) probe(user string) *probe {
	d.t.Helper()
	p := &probe{t: d.t, user: user, refused: &bustest.Refusals{}, done: make(chan struct{}), tried: make(map[string]bool)}
	p.nc = d.conn(user, nats.ErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if p.refused.Handler(nc, sub, err); strings.Contains(err.Error(), lastProbe) {
			close(p.done)
		}
	}))
	return p
}

func (p *probe) publish(subject string, may bool) {
	p.t.Helper()
	p.tried[`Publish to "`+subject+`"`] = may
	runtest.NoError(p.t, p.nc.Publish(subject, nil))
}

func (p *probe) subscribe(subject string, may bool) {
	p.t.Helper()
	p.tried[`Subscription to "`+subject+`"`] = may
	_, err := p.nc.SubscribeSync(subject)
	runtest.NoError(p.t, err)
}

// check compares the refusals with the expected ones.
func (p *probe) check() {
	p.t.Helper()
	runtest.NoError(p.t, p.nc.Publish(lastProbe, nil))
	select {
	case <-p.done:
	case <-harness.Context(p.t).Done():
		p.t.Fatalf("%s: the server did not refuse %s", p.user, lastProbe)
	}
	output := p.refused.String()
	for what, may := range p.tried {
		if refused := strings.Contains(output, what); refused == may {
			p.t.Errorf("%s: %s: refused %v, want %v", p.user, what, refused, !may)
		}
	}
}
