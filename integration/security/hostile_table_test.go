package security

import (
	"maps"
	"slices"
	"time"

	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/operation"
)

// transport is a way to the fleet, with its share of the requests in percent.
type transport struct {
	name  string
	share int
}

func transports() []transport {
	return []transport{{"HTTP", 36}, {"NATS", 29}, {"MCP", 9}, {"page", 5}, {"callback", 13}, {"plugin", 6}, {"archive", 2}}
}

// target is an operation of a transport, and how a request of it is sent.
type target struct {
	transport, op string
	send          func(a *attacker)
}

// table has every operation of every transport. An operation of the API without a case ends the test.
func (s *siege) table() map[string][]target {
	s.T.Helper()
	table := map[string][]target{
		"MCP": s.mcpTargets(), "page": s.pageTargets(), "plugin": s.pluginTargets(), "archive": s.archiveTargets(),
	}
	add := func(transport, op string, send func(*attacker)) {
		table[transport] = append(table[transport], target{transport, op, send})
	}
	served := make(map[string]harness.Operation)
	for _, op := range s.http.Doc.Operations() {
		served[op.ID] = op
	}
	for _, row := range operation.All() {
		if row.Route != "" {
			op, ok := served[row.ID]
			if _, has := harness.ValidBodies()[row.ID]; !ok || has != (op.Given || op.Fields != nil) {
				s.T.Fatalf("%s: in the document: %v, has a body: %v, a case of it: %v: see harness.ValidBodies", row.ID, ok, !has, has)
			}
			add("HTTP", op.ID, func(a *attacker) { a.overHTTP(op) })
			add("callback", op.ID, func(a *attacker) { a.callback(op) })
		}
		if row.Name == "" {
			continue
		}
		if hostileBody(row.Name) == nil {
			s.T.Fatalf("%s: has a request over NATS, and no case of it: see bodiesInSession", row.Name)
		}
		add("NATS", string(row.Name), func(a *attacker) { a.overNATS(row.Name) })
	}
	return table
}

// hostileBody is a valid body of an operation over NATS; nil: the test has none.
func hostileBody(op operation.Name) any {
	if body, ok := natsBodies()[op]; ok {
		return body
	}
	if operation.Named()[op].In == (operation.None{}) {
		return &operation.None{}
	}
	return nil
}

// attacker is one sender of requests.
type attacker struct {
	*siege
	*forger
	id, fresh string // the session under attack, and one that requests make
	decks     map[string][]target
	order     []string
	call      *openCall // of the hostile program; nil: none
}

// draw is the next target. Each transport gets its share of each hundred requests, and each operation of a transport its turn
// before one of them gets the next.
func (a *attacker) draw() target {
	if len(a.order) == 0 {
		for _, d := range transports() {
			a.order = append(a.order, slices.Repeat([]string{d.name}, d.share)...)
		}
		a.Shuffle(len(a.order), func(i, j int) { a.order[i], a.order[j] = a.order[j], a.order[i] })
	}
	name := a.order[0]
	a.order = a.order[1:]
	if len(a.decks[name]) == 0 {
		deck := slices.Clone(a.targets[name])
		a.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		a.decks[name] = deck
	}
	next := a.decks[name][0]
	a.decks[name] = a.decks[name][1:]
	return next
}

// hit sends a request of a target, and counts it and how it differs from a valid one.
func (a *attacker) hit(t target) {
	a.change = "valid"
	began := time.Now()
	t.send(a)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.took[t.transport] += time.Since(began)
	a.sent[[2]string{t.transport, t.op}]++
	a.changes[[2]string{t.transport, a.change}]++
}

// report logs the requests by transport, and fails for a transport or an operation that got less than half of its share.
func (s *siege) report() {
	s.T.Helper()
	s.log("change", s.changes)
	s.log("outcome", s.outcomes)
	for _, d := range transports() {
		sum, accepted, least := 0, s.outcomes[[2]string{d.name, "ok"}], 0
		for _, t := range s.targets[d.name] {
			n := s.sent[[2]string{t.transport, t.op}]
			sum += n
			if least == 0 || n < least {
				least = n
			}
			if share := *hostileRequests * d.share / 100 / len(s.targets[d.name]); n < share/2 {
				s.T.Errorf("%s %s: got %d requests, want half of %d", t.transport, t.op, n, share)
			}
		}
		if share := *hostileRequests * d.share / 100; sum < share/2 {
			s.T.Errorf("%s: got %d requests, want half of %d", d.name, sum, share)
		}
		if accepted == 0 || accepted == sum {
			s.T.Errorf("%s: got %d of %d requests accepted, want some", d.name, accepted, sum)
		}
		s.T.Logf("%-10s %7d requests of %3d operations, %d or more of each, %d accepted, %s each", d.name, sum, len(s.targets[d.name]), least, accepted, (s.took[d.name] / time.Duration(max(sum, 1))).Round(time.Microsecond))
	}
}

func (s *siege) log(what string, counts map[[2]string]int) {
	s.T.Helper()
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	for _, k := range keys {
		s.T.Logf("%-8s %-10s %-24s %7d", what, k[0], k[1], counts[k])
	}
}
