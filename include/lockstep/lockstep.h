// SPDX-License-Identifier: Apache-2.0
#pragma once

// Everything, for training programs that link lockstep::lockstep.
#include "lockstep/comm.h"
#include "lockstep/ddp/data_parallel_core.h"
#include "lockstep/ddp/ddp_options.h"
#include "lockstep/ddp/ddp_stats.h"
#include "lockstep/ddp/distributed_data_parallel.h"
#include "lockstep/ddp/gradient_map.h"
#include "lockstep/ddp/reducer.h"
#include "lockstep/ddp/reducer_options.h"
#include "lockstep/ddp/step_times.h"
#include "lockstep/ddp/verify.h"
#include "lockstep/ddp/visit_tensors.h"
#include "lockstep/hook/comm_hook.h"
#include "lockstep/hook/grad_bucket.h"
#include "lockstep/plan/bucket_plan.h"
#include "lockstep/tensor/collectives.h"
#include "lockstep/tensor/dtype.h"
