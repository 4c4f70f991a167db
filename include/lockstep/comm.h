// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything below the torch line, for programs that link lockstep::comm.
#include "lockstep/backend/init.h"
#include "lockstep/backend/local.h"
#include "lockstep/base/bytes.h"
#include "lockstep/base/deadline.h"
#include "lockstep/base/error.h"
#include "lockstep/base/future.h"
#include "lockstep/base/version.h"
#include "lockstep/collective/types.h"
#include "lockstep/comm/backend.h"
#include "lockstep/comm/process_group.h"
#include "lockstep/comm/work.h"
#include "lockstep/launch/store_url.h"
#include "lockstep/launch/world.h"
#include "lockstep/store/file_store.h"
#include "lockstep/store/hash_store.h"
#include "lockstep/store/prefix_store.h"
#include "lockstep/store/rendezvous.h"
#include "lockstep/store/tcp_store.h"
#include "lockstep/store/tcp_store_server.h"
#include "lockstep/trace/trace.h"
