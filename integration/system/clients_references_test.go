package system

import (
	"reflect"
	"testing"

	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// reach says where else a capability of plugins and protocols in a node's process is available: as an operation,
// over HTTP and, where the row has a name or a client reads the log by itself, over NATS. Where there is less than
// in the process, or nothing, why has the reason.
type reach struct {
	by  *operation.Row
	why string
}

// The reasons why a capability of a node's process is in no API.
const (
	inTheTurn = "a hook: it runs within a turn or a decision of the host, in the process that makes it"
	ofClosure = "it names a function of the node's own process; a program elsewhere registers a task of its own, and runs that itself"
	ofProcess = "it is about the stack that a process holds, and its caches: a remote caller has no stack"
	toTurnEnd = "StartTurn is submit with the wait of the door: over HTTP the parameter wait, over NATS the history"
)

// references has every capability of the interfaces that plugins and protocols have.
func references() map[reflect.Type]map[string]reach {
	by := func(r *operation.Row) reach { return reach{by: r} }
	why := func(text string) reach { return reach{why: text} }
	return map[reflect.Type]map[string]reach{
		reflect.TypeFor[plugin.RuntimeHost](): {
			"SnapshotCurrent": by(operation.Snapshot), "SnapshotSession": by(operation.Snapshot),
			"ToolCatalog": by(&operation.ToolCatalog.Row), "ToolState": by(&operation.ToolState.Row), "ApplyToolState": by(&operation.ApplyToolState.Row),
			"SetToolsAvailability": by(&operation.SetToolsAvailability.Row), "SetToolAvailability": by(&operation.SetToolsAvailability.Row), "ToolOutput": by(&operation.ToolOutput.Row),
			"ToolSources": by(&operation.ToolSources.Row), "AddToolSource": by(&operation.AddToolSource.Row), "RemoveToolSource": by(&operation.RemoveToolSource.Row), "RefreshCatalog": by(&operation.RefreshCatalog.Row),
			"CreateSession": by(&operation.Create.Row), "TakeFirstTurnInput": by(&operation.TakeFirstTurnInput.Row), "CloseSession": by(&operation.CloseSession.Row),
			"StartTurnStream": by(operation.WatchTurn), "AwaitTurn": by(operation.Turn), "CancelTurn": by(&operation.Cancel.Row), "StartTurn": why(toTurnEnd), "AnswerByTurn": why(toTurnEnd),
			"InjectTurnInput": by(&operation.Inject.Row), "AppendNodes": by(&operation.AppendNodes.Row), "Complete": by(&operation.Complete.Row),
			"SpawnHiddenTask": why(ofClosure), "AwaitHiddenTasks": why(ofClosure), "SpawnTask": why(ofClosure), "CancelTaskIfKnown": by(&operation.CancelTask.Row),
			"RegisterTask": by(&operation.RegisterTask.Row), "UnregisterTask": by(&operation.UnregisterOwnTask.Row), "EndTask": by(&operation.EndOwnTask.Row),
			"TransitionTask": by(&operation.TransitionOwnTask.Row), "Tasks": by(&operation.Tasks.Row), "CancelTask": by(&operation.CancelTask.Row),
			"CheckTasks": by(&operation.Task.Row), "TransferTasks": by(&operation.TransferTasks.Row),
			"CancelTasksExcept": by(&operation.CancelTasks.Row),
			"MonitorSnapshot":   by(&operation.MonitorSnapshot.Row), "TakeMonitorUpdates": by(&operation.TakeMonitorUpdates.Row), "StartMonitor": by(&operation.StartMonitor.Row), "StopMonitor": by(&operation.StopMonitor.Row),
			"StoreBody": by(&operation.StoreBlob.Row), "ReadBody": by(operation.ReadBlob),
			"ResolveAt": by(&operation.ResolveTool.Row), "Now": why("the times of commits, which every API has, are the servers'"),
			"EmitTrace": why("traces are for the operator of a node: its plugins write them, in its process and as programs; what another program traces is its own"),
		},
		reflect.TypeFor[plugin.Protocol](): {
			"Initialize": why(inTheTurn), "Restore": why(inTheTurn), "Configure": why(inTheTurn), "BeforeModelCall": why(inTheTurn), "ValidateTurn": by(&operation.Submit.Row),
			"AppendNodes": by(&operation.AppendNodes.Row), "ApplyExtension": by(&operation.ApplyExtension.Row),
		},
		reflect.TypeFor[*plugin.ProtocolRuntime](): {
			"Options": by(&operation.State.Row), "Change": why(ofProcess), "SetOptions": by(&operation.SetProtocolOptions.Row), "SetOptionsAllFrames": by(&operation.SetProtocolOptions.Row),
		},
		reflect.TypeFor[plugin.CodeExecutor](): {
			"Execute": why(inTheTurn), "Dirty": why(ofProcess), "Snapshot": why(ofProcess), "Restore": why(ofProcess),
		},
		reflect.TypeFor[plugin.Driver](): {"Preamble": why(inTheTurn)},
		reflect.TypeFor[*plugin.Registrar](): {
			"Action": by(&operation.InvokeAction.Row), "Monitor": by(&operation.StartMonitor.Row), "Tools": by(&operation.ToolState.Row), "Catalog": by(&operation.ToolCatalog.Row), "Compact": by(&operation.Compact.Row),
			"MutateConfig": by(&operation.Configure.Row),
			"Source":       by(&operation.AddToolSource.Row), "Reserve": why(ofClosure),
		},
	}
}

// TestReferences compares the table with the interfaces. Each capability is in it, with an operation or the reason why
// there is none. A method of the registrar without a row adds a hook.
func TestReferences(t *testing.T) {
	t.Parallel()
	for typ, rows := range references() {
		for i := range typ.NumMethod() {
			if name := typ.Method(i).Name; rows[name] == (reach{}) && typ != reflect.TypeFor[*plugin.Registrar]() {
				t.Errorf("%s.%s: has no row", typ, name)
			}
		}
		for name, r := range rows {
			if _, ok := typ.MethodByName(name); !ok {
				t.Errorf("%s.%s: there is none", typ, name)
			}
			if r.by == nil && r.why == "" {
				t.Errorf("%s.%s: wants an operation, or the reason that it has none", typ, name)
			}
		}
	}
}
