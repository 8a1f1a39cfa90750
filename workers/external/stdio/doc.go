// Package stdio makes a program that reads and writes JSON lines on its standard streams an instance of a plugin. An
// [Adapter] is a [remote.Program]: it starts the program as a child process and translates the messages of nodes to
// lines. Section "Programs on stdin and stdout" of session/plugin/wire/PROTOCOL.md has the lines.
//
//	adapter, err := stdio.New(ctx, stdio.Config{Plugin: "notes", Command: []string{"python3", "notes.py"}})
//	instance, err := remote.Start(ctx, remote.Config{Conn: conn, Plugin: adapter})
//
// # The life of a child
//
//	started ──register──► open ──its call ends, drain, idle──► closing: its input is closed ──► gone
//	   │                   │                                       │ 2 s
//	   └───────────────────┴──► killed: TERM, and KILL after 2 s ◄─┘
//
//	fault                                      what the adapter does
//	no register line within 10 s               kills the child; the first child's death ends New
//	a line that is too long or no message      kills the child
//	input that the child does not read         kills the child, once 64 MiB wait
//	a cancel that the child does not answer    kills the child after half of the grace, once no other call runs in it
//	the child dies                             its calls fail, or are lost if they must not run twice; the next call
//	                                           starts a child, after a wait that doubles from 100 ms to 10 s
//	the adapter dies                           the child's process group is killed
//
// A plugin of scope session has a child for each session, which starts with the session's placement and ends after
// [Config.Idle] without a call; the next call starts one, which gets the session's start again.
package stdio
