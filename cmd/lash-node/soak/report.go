package soak

import (
	"math"
	"slices"
	"time"

	"github.com/lash-go/lash/events"
)

// Report is what a run came to.
type Report struct {
	Turns     int64 `json:"turns"`  // ended
	Faults    int   `json:"faults"` // of all kinds
	Takeovers int   `json:"takeovers"`
	// Takeovers of killed nodes while nothing else was disturbed: from the kill
	// to the commit that claims the turn on another node. These sessions had
	// their wake in the queue until then.
	TakeoverP50 float64 `json:"takeover_p50_ms"`
	TakeoverP99 float64 `json:"takeover_p99_ms"` // at most 2 s
	Doubled     int     `json:"doubled"`         // effects that ran twice and must not
	Lost        int     `json:"lost"`            // sessions whose accepted turns did not end, or whose history differs

	// The same of sessions that had no wake when their node was killed, or lost it
	// before the claim. A wake that had reached another worker by then counts as
	// lost: it has its effect, within half a second.
	LostWakeP50 float64 `json:"lost_wake_p50_ms"`
	LostWakeP99 float64 `json:"lost_wake_p99_ms"` // at most 10 s

	Seed            uint64        `json:"seed"`
	Sessions        int           `json:"sessions"`
	ByFault         map[Fault]int `json:"by_fault"`
	TakeoverMax     float64       `json:"takeover_max_ms"`
	TakeoversTimed  int           `json:"takeovers_timed"` // with their wake
	LostWakeMax     float64       `json:"lost_wake_max_ms"`
	LostWakeTimed   int           `json:"lost_wake_timed"`
	DisturbedTimed  int           `json:"disturbed_timed"`   // takeovers of killed nodes while servers or other nodes were disturbed
	DisturbedP50    float64       `json:"disturbed_p50_ms"`  // of those
	DisturbedP99    float64       `json:"disturbed_p99_ms"`  // of those
	Again           int           `json:"again"`             // effects that were under way when their worker died, and asked for again
	UnknownCalls    int           `json:"unknown_calls"`     // calls that must not run twice and were under way when their worker died, as the histories say
	StaleEffects    int           `json:"stale_effects"`     // repeated by workers that were frozen or cut off, and not recorded
	ClientsWentOn   int64         `json:"clients_went_on"`   // errors that clients went on after
	DurationSeconds float64       `json:"duration_s"`        // with faults
	Bad             []Bad         `json:"bad,omitempty"`     // sessions that lost or doubled something
	Store           string        `json:"store,omitempty"`   // where everything is kept
	Stopped         bool          `json:"stopped,omitempty"` // before the time was over
}

// Bad is a session that lost or doubled something.
type Bad struct {
	Session events.SessionID `json:"session"`
	Lost    string           `json:"lost,omitempty"`
	Doubled []string         `json:"doubled,omitempty"`
	History string           `json:"history"` // archive file, for lash-replay
}

// TakeoverLimit and LostWakeLimit are what the 99th percentile of takeovers may
// take: with the session's wake, and where that was lost.
const (
	TakeoverLimit = 2 * time.Second
	LostWakeLimit = 10 * time.Second
)

// Late reports whether a 99th percentile of takeovers exceeds its limit.
func (r *Report) Late() bool {
	return r.TakeoverP99 > millis(TakeoverLimit) || r.LostWakeP99 > millis(LostWakeLimit)
}

// Failed reports whether something was lost, doubled or late.
func (r *Report) Failed() bool { return r.Lost > 0 || r.Doubled > 0 || r.Late() }

func (r *Report) bad(id events.SessionID) *Bad {
	for i := range r.Bad {
		if r.Bad[i].Session == id {
			return &r.Bad[i]
		}
	}
	return nil
}

func (r *Report) add(id events.SessionID, f *findings) {
	r.Sessions++
	r.UnknownCalls += f.calls
	r.StaleEffects += f.stale
	r.Again += f.again
	r.Doubled += len(f.doubled)
	bad := Bad{Session: id, Doubled: f.doubled}
	if f.lost != nil {
		r.Lost++
		bad.Lost = f.lost.Error()
	}
	if f.lost != nil || len(f.doubled) > 0 {
		r.Bad = append(r.Bad, bad)
	}
}

// takeover is a killed node's turn that another claimed.
type takeover struct {
	Session   events.SessionID `json:"session"`
	Turn      events.TurnID    `json:"turn"`
	From      events.WorkerID  `json:"from"`
	To        events.WorkerID  `json:"to"`
	Killed    time.Time        `json:"killed"`
	Took      time.Duration    `json:"took_ns"`   // until the commit that claims it
	LostWake  bool             `json:"lost_wake"` // the queue had no wake of the session, at the kill or at some time since
	Disturbed bool             `json:"disturbed"` // servers or other nodes were, meanwhile, or what the queue had is unknown
}

// takeovers times each claim after the first against the kill of the worker before. n counts all of them.
func takeovers(session events.SessionID, claims []claim, incidents []incident) (list []takeover, n int) {
	held := make(map[events.TurnID]claim)
	for _, c := range claims {
		before, ok := held[c.turn]
		held[c.turn] = c
		if !ok || !c.again {
			continue
		}
		n++
		i := slices.IndexFunc(incidents, func(i incident) bool { return i.Fault.kills() && i.Worker == before.worker })
		if i < 0 || c.at.Before(incidents[i].At) {
			continue // it was frozen or cut off
		}
		kill := &incidents[i]
		list = append(list, takeover{
			Session: session, Turn: c.turn, From: before.worker, To: c.worker, Killed: kill.At, Took: c.at.Sub(kill.At),
			LostWake:  !kill.wakes[session] || purged(incidents, kill.At, c.at),
			Disturbed: kill.wakes == nil || disturbed(incidents, kill.At, c.at),
		})
	}
	return list, n
}

// settle is how long after a fault clients and servers may still find each other again.
const settle = time.Second

// disturbed reports whether something else than kills of nodes and losses of wakes went on between two times.
// A purge that failed may have been done or not.
func disturbed(incidents []incident, from, to time.Time) bool {
	return slices.ContainsFunc(incidents, func(i incident) bool {
		known := i.Fault == FaultKill || i.Fault == FaultWakes && !i.Lost.IsZero()
		return !known && i.At.Before(to) && i.Until.Add(settle).After(from)
	})
}

// purged reports whether the queue of wakes was, between two times.
func purged(incidents []incident, from, to time.Time) bool {
	return slices.ContainsFunc(incidents, func(i incident) bool { return i.Lost.After(from) && i.Lost.Before(to) })
}

// percentile of a list, by nearest rank, in milliseconds.
func percentile(list []time.Duration, p float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	rank := int(math.Ceil(p/100*float64(len(list)))) - 1
	return math.Round(float64(list[max(rank, 0)].Microseconds())/100) / 10
}

func (r *Report) times(list []takeover) {
	var alone, lost, disturbed []time.Duration
	for i := range list {
		switch {
		case list[i].Disturbed:
			disturbed = append(disturbed, list[i].Took)
		case list[i].LostWake:
			lost = append(lost, list[i].Took)
		default:
			alone = append(alone, list[i].Took)
		}
	}
	r.TakeoversTimed, r.TakeoverP50, r.TakeoverP99 = len(alone), percentile(alone, 50), percentile(alone, 99)
	r.TakeoverMax = percentile(alone, 100)
	r.LostWakeTimed, r.LostWakeP50, r.LostWakeP99 = len(lost), percentile(lost, 50), percentile(lost, 99)
	r.LostWakeMax = percentile(lost, 100)
	r.DisturbedTimed, r.DisturbedP50, r.DisturbedP99 = len(disturbed), percentile(disturbed, 50), percentile(disturbed, 99)
}
