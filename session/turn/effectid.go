package turn

import (
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
)

// ModelEffect is the effect id of an iteration's model call.
func ModelEffect(turn events.TurnID, iteration int64) events.EffectID {
	return events.EffectID(string(turn) + "/" + strconv.FormatInt(iteration, 10) + "/model")
}

// ToolEffect is the effect id of a tool call.
func ToolEffect(turn events.TurnID, iteration, call int64) events.EffectID {
	return events.EffectID(string(turn) + "/" + strconv.FormatInt(iteration, 10) + "/" + strconv.FormatInt(call, 10))
}

// ParseToolEffect is the inverse of [ToolEffect]. ok is false for any other id, as that of a nested call.
func ParseToolEffect(id events.EffectID) (turn events.TurnID, iteration, call int64, ok bool) {
	turn = OfEffect(id)
	first, second, _ := strings.Cut(strings.TrimPrefix(string(id), string(turn)+"/"), "/")
	iteration, err := strconv.ParseInt(first, 10, 64)
	if err == nil {
		call, err = strconv.ParseInt(second, 10, 64)
	}
	if err != nil || turn == "" || iteration < 0 || call < 0 || ToolEffect(turn, iteration, call) != id {
		return "", 0, 0, false
	}
	return turn, iteration, call, true
}

// OfEffect is the turn of an effect. The ids of all effects of a turn begin with its id.
func OfEffect(id events.EffectID) events.TurnID {
	turn, _, _ := strings.Cut(string(id), "/")
	return events.TurnID(turn)
}

// HookEffect is the effect id of the hooks at a point.
func HookEffect(o Needs) events.EffectID {
	id := string(o.Turn) + "/" + strconv.FormatInt(o.Iteration, 10) + "/" + string(o.Hooks)
	if o.At != "" {
		id += "/" + string(o.At)
	}
	return events.EffectID(id)
}
