package main

import (
	"math"
	"slices"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/command"
)

// Report is the result of a run.
type Report struct {
	Turns     int64 `json:"turns"`  // ended
	Faults    int   `json:"faults"` // of all kinds
	Takeovers int   `json:"takeovers"`
	// Takeovers of killed nodes while no other fault was active: from the kill to the commit that claims the turn on
	// another node. The queue had the wake of these sessions throughout.
	TakeoverP50 float64 `json:"takeover_p50_ms"`
	TakeoverP99 float64 `json:"takeover_p99_ms"` // at most 2 s
	Doubled     int     `json:"doubled"`         // effects that ran twice and must not
	Lost        int     `json:"lost"`            // sessions with an unfinished accepted turn, or whose history differs

	// The same for sessions without a wake at the kill, or whose wake was purged before the claim. A wake that another
	// worker already had counts as purged: it still works, within half a second.
	LostWakeP50 float64 `json:"lost_wake_p50_ms"`
	LostWakeP99 float64 `json:"lost_wake_p99_ms"` // at most 10 s

	Seed            uint64        `json:"seed"`
	Sessions        int           `json:"sessions"`
	ByFault         map[Fault]int `json:"by_fault"`
	TakeoverMax     float64       `json:"takeover_max_ms"`
	TakeoversTimed  int           `json:"takeovers_timed"` // with their wake
	LostWakeMax     float64       `json:"lost_wake_max_ms"`
	LostWakeTimed   int           `json:"lost_wake_timed"`
	DisturbedTimed  int           `json:"disturbed_timed"`   // takeovers of killed nodes while other faults were active
	DisturbedP50    float64       `json:"disturbed_p50_ms"`  // of the disturbed takeovers
	DisturbedP99    float64       `json:"disturbed_p99_ms"`  // of the disturbed takeovers
	Again           int           `json:"again"`             // effects running when their worker died, which ran again
	UnknownCalls    int           `json:"unknown_calls"`     // non-idempotent calls running when their worker or instance died, as the histories record
	RefusedCalls    int           `json:"refused_calls"`     // non-idempotent calls whose instance of the plugin was gone before their start, as the histories record
	PluginCalls     int           `json:"plugin_calls"`      // that ran in processes of the plugin
	PluginOnce      int           `json:"plugin_once_calls"` // of them, those that must not run twice
	MCPCalls        int           `json:"mcp_calls"`         // of tools of servers of the Model Context Protocol, as the histories record
	MCPRuns         int           `json:"mcp_runs"`          // of these tools, as the servers' ledgers record
	Agents          int           `json:"agents"`            // that turns of --agents started, as the histories record
	GivenUp         int           `json:"given_up"`          // turns that killed each node which ran them
	StaleEffects    int           `json:"stale_effects"`     // repeated by frozen or disconnected workers, and not recorded
	ClientsWentOn   int64         `json:"clients_went_on"`   // errors after which clients continued
	DurationSeconds float64       `json:"duration_s"`        // with faults
	Bad             []Bad         `json:"bad,omitempty"`     // sessions with a lost or doubled effect
	Store           string        `json:"store,omitempty"`   // directory of all files of the run
	Stopped         bool          `json:"stopped,omitempty"` // before the end of the duration
}

// Bad is a session with a lost or doubled effect.
type Bad struct {
	Session events.SessionID `json:"session"`
	Lost    string           `json:"lost,omitempty"`
	Doubled []string         `json:"doubled,omitempty"`
	History string           `json:"history"` // archive file, for lash-replay
}

// TakeoverLimit and LostWakeLimit bound the 99th percentile of takeovers, with the session's wake and without it.
const (
	TakeoverLimit = 2 * time.Second
	LostWakeLimit = 10 * time.Second
)

const (
	errSoaked = command.Found("something was lost or doubled")
	errLate   = command.Found("takeovers were late")
)

// verdict is nil for a run in which nothing was lost or doubled, and no takeover was late.
func (r *Report) verdict() error {
	switch {
	case r.Lost+r.Doubled > 0:
		return errSoaked
	case r.TakeoverP99 > millis(TakeoverLimit) || r.LostWakeP99 > millis(LostWakeLimit):
		return errLate
	}
	return nil
}

func (r *Report) add(id events.SessionID, f *findings) {
	r.Sessions++
	r.UnknownCalls += f.unknown
	r.StaleEffects += f.stale
	r.Again += f.repeated
	r.PluginCalls += f.outside
	r.PluginOnce += f.once
	r.RefusedCalls += f.refused
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

// takeover is a turn of a killed node that another worker claimed.
type takeover struct {
	Session   events.SessionID `json:"session"`
	Turn      events.TurnID    `json:"turn"`
	From      events.WorkerID  `json:"from"`
	To        events.WorkerID  `json:"to"`
	Killed    time.Time        `json:"killed"`
	Took      time.Duration    `json:"took_ns"`   // until the commit that claims it
	LostWake  bool             `json:"lost_wake"` // the queue had no wake of the session, at the kill or later
	Disturbed bool             `json:"disturbed"` // another fault was active, or the wakes in the queue are unknown
}

// takeovers measures each claim after the first from the kill of the worker before it. n counts all of them.
func takeovers(session events.SessionID, claims []claim, incidents []incident) (list []takeover, n int) {
	running := make(map[events.TurnID]claim)
	for _, c := range claims {
		before, ok := running[c.turn]
		running[c.turn] = c
		if !ok || !c.takeover {
			continue
		}
		n++
		i := slices.IndexFunc(incidents, func(i incident) bool { return i.Fault.kills() && i.Worker == before.worker })
		if i < 0 || c.at.Before(incidents[i].At) {
			continue // its worker was frozen or disconnected
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

// reconnectTime is the time after a fault in which clients and servers still reconnect.
const reconnectTime = time.Second

// disturbed reports whether a fault other than a kill of a node or a purge of wakes was active between two times. A
// failed purge counts too: its outcome is unknown.
func disturbed(incidents []incident, from, to time.Time) bool {
	return slices.ContainsFunc(incidents, func(i incident) bool {
		known := i.Fault == FaultKill || i.Fault == FaultWakes && !i.Lost.IsZero()
		return !known && i.At.Before(to) && i.Until.Add(reconnectTime).After(from)
	})
}

// purged reports whether the queue of wakes was purged between two times.
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
	var undisturbed, lost, disturbed []time.Duration
	for i := range list {
		switch {
		case list[i].Disturbed:
			disturbed = append(disturbed, list[i].Took)
		case list[i].LostWake:
			lost = append(lost, list[i].Took)
		default:
			undisturbed = append(undisturbed, list[i].Took)
		}
	}
	r.TakeoversTimed, r.TakeoverP50, r.TakeoverP99 = len(undisturbed), percentile(undisturbed, 50), percentile(undisturbed, 99)
	r.TakeoverMax = percentile(undisturbed, 100)
	r.LostWakeTimed, r.LostWakeP50, r.LostWakeP99 = len(lost), percentile(lost, 50), percentile(lost, 99)
	r.LostWakeMax = percentile(lost, 100)
	r.DisturbedTimed, r.DisturbedP50, r.DisturbedP99 = len(disturbed), percentile(disturbed, 50), percentile(disturbed, 99)
}
