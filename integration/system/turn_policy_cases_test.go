package system

import (
	"strings"

	"github.com/lash-go/lash/session/api"
)

// policyCase is the situation that a turn t2 finds, and what follows (the rules are those of [api.WhenBusy]).
type policyCase struct {
	busy     api.WhenBusy
	history  string // lines of turnLines from t2's on, joined by "|"
	messages string // after those of t0, likewise
}

// lines joins what a case expects.
func lines(list ...string) string { return strings.Join(list, "|") }

var policyCases = map[string][]policyCase{
	"idle": {
		{api.WhenBusyEnqueue, lines("requested t2", "started t2 1", "completed t2 finished"), lines("user t2", "assistant t2/0/model")},
		{api.WhenBusyInject, lines("requested t2", "started t2 1", "completed t2 finished"), lines("user t2", "assistant t2/0/model")},
		{api.WhenBusyReject, lines("requested t2", "started t2 1", "completed t2 finished"), lines("user t2", "assistant t2/0/model")},
		{api.WhenBusyInterrupt, lines("requested t2", "started t2 1", "completed t2 finished"), lines("user t2", "assistant t2/0/model")},
		{api.WhenBusyBranch, lines("requested t2", "started t2 1", "completed t2 finished"), lines("user t2", "assistant t2/0/model")},
	},
	"running": {
		{
			api.WhenBusyEnqueue, lines("requested t2", "completed t1 finished", "started t2 1", "completed t2 finished"),
			lines("user t1", "assistant t1/0/model", "user t2", "assistant t2/0/model"),
		},
		{
			api.WhenBusyInject, lines("requested t2 inject t1", "diverted t2 injected t1", "completed t1 finished"),
			lines("user t1", "assistant t1/0/model", "user t2", "assistant t1/1/model"),
		},
		{
			api.WhenBusyReject, lines("requested t2 reject t1", "diverted t2 rejected t1", "completed t1 finished"),
			lines("user t1", "assistant t1/0/model"),
		},
		{
			api.WhenBusyInterrupt, lines("requested t2 interrupt t1", "cancel_requested t1 replaced by turn t2", "completed t1 cancelled", "started t2 1", "completed t2 finished"),
			lines("user t1", "user t2", "assistant t2/0/model"),
		},
		{
			api.WhenBusyBranch, lines("requested t2 branch t1", "diverted t2 branched t1", "completed t1 finished"),
			lines("user t1", "assistant t1/0/model"),
		},
	},
	"stranded": {
		{
			api.WhenBusyEnqueue, lines("requested t2", "started t1 2", "completed t1 finished", "started t2 1", "completed t2 finished"),
			lines("user t1", "assistant t1/0/model", "user t2", "assistant t2/0/model"),
		},
		{
			api.WhenBusyInject, lines("requested t2 inject t1", "started t1 2", "diverted t2 injected t1", "completed t1 finished"),
			lines("user t1", "assistant t1/0/model", "user t2", "assistant t1/1/model"),
		},
		{
			api.WhenBusyReject, lines("requested t2 reject t1", "diverted t2 rejected t1", "started t1 2", "completed t1 finished"),
			lines("user t1", "assistant t1/0/model"),
		},
		{
			api.WhenBusyInterrupt, lines("requested t2 interrupt t1", "cancel_requested t1 replaced by turn t2", "started t1 2", "completed t1 cancelled", "started t2 1", "completed t2 finished"),
			lines("user t1", "user t2", "assistant t2/0/model"),
		},
		{
			api.WhenBusyBranch, lines("requested t2 branch t1", "started t1 2", "diverted t2 branched t1", "completed t1 finished"),
			lines("user t1", "assistant t1/0/model"),
		},
	},
	"parked": {
		{
			api.WhenBusyEnqueue, lines("requested t2", "started t1 2", "completed t1 finished", "started t2 1", "completed t2 finished"),
			lines("user t1", "assistant k:later{}", "user k=done", "assistant t1/1/model", "user t2", "assistant t2/0/model"),
		},
		{
			api.WhenBusyInject, lines("requested t2 inject t1", "started t1 2", "diverted t2 injected t1", "completed t1 finished"),
			lines("user t1", "assistant k:later{}", "user k=done", "user t2", "assistant t1/1/model"),
		},
		{
			api.WhenBusyReject, lines("requested t2 reject t1", "diverted t2 rejected t1", "started t1 2", "completed t1 finished"),
			lines("user t1", "assistant k:later{}", "user k=done", "assistant t1/1/model"),
		},
		{
			api.WhenBusyInterrupt, lines("requested t2 interrupt t1", "cancel_requested t1 replaced by turn t2", "started t1 2", "completed t1 cancelled", "started t2 1", "completed t2 finished"),
			lines("user t1", "assistant k:later{}", "user k=[cancelled] The call was cancelled.", "user t2", "assistant t2/0/model"),
		},
		{
			api.WhenBusyBranch, lines("requested t2 branch t1", "diverted t2 branched t1", "started t1 2", "completed t1 finished"),
			lines("user t1", "assistant k:later{}", "user k=done", "assistant t1/1/model"),
		},
	},
	"waiting": {
		{
			api.WhenBusyEnqueue, lines("requested t2", "completed t1 finished", "started t3 1", "completed t3 finished", "started t2 1", "completed t2 finished"),
			lines("user t1", "assistant t1/0/model", "user t3", "assistant t3/0/model", "user t2", "assistant t2/0/model"),
		},
		{
			api.WhenBusyInject, lines("requested t2 inject t1", "diverted t2 injected t1", "completed t1 finished", "started t3 1", "completed t3 finished"),
			lines("user t1", "assistant t1/0/model", "user t2", "assistant t1/1/model", "user t3", "assistant t3/0/model"),
		},
		{
			api.WhenBusyReject, lines("requested t2 reject t1", "diverted t2 rejected t1", "completed t1 finished", "started t3 1", "completed t3 finished"),
			lines("user t1", "assistant t1/0/model", "user t3", "assistant t3/0/model"),
		},
		{
			api.WhenBusyInterrupt, lines("requested t2 interrupt t1", "cancel_requested t1 replaced by turn t2", "completed t1 cancelled", "started t2 1", "completed t2 finished", "started t3 1", "completed t3 finished"),
			lines("user t1", "user t2", "assistant t2/0/model", "user t3", "assistant t3/0/model"),
		},
		{
			api.WhenBusyBranch, lines("requested t2 branch t1", "diverted t2 branched t1", "completed t1 finished", "started t3 1", "completed t3 finished"),
			lines("user t1", "assistant t1/0/model", "user t3", "assistant t3/0/model"),
		},
	},
}
